"""What a search is asked for, and the protocol of retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

from lagotto.documents import Record, Vector
from lagotto.errors import ConfigError
from lagotto.filters import parse_filter
from lagotto.prefs import RetrievalPrefs, Verb
from lagotto.request_context import RequestContext
from lagotto.results import RetrievalBundle


@runtime_checkable
class Retriever(Protocol):
    """Finds documents and evidence for a query.

    Contract: the same inputs give the same bundle. A search stops when `ctx.cancellation` fires
    or its deadline passes. It never prints, streams or emits events: whatever there is to tell a
    caller is in the bundle. What it logs, at INFO and DEBUG, is for who runs the program.
    """

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """The documents that may hold the answer, and the passages in them that support it."""
        ...


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: a verb, a query, and how it is to be answered.

    `prefs` are the preferences to start from: RetrievalPrefs, the name of a preset, or None for
    those of the base that is asked; `over_own`, what they leave unset is as in the base's.
    `settings` change them, in this call alone. `vector` is the
    query's, if the caller has one. `max_tokens`, `format` and `counter` are for a pack.
    `document_id` is the document that `why_not` is about, in `document_collection` if that is
    known.
    """

    verb: Verb | Literal["why_not"]
    query: str
    prefs: RetrievalPrefs | str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    vector: Vector | None = None
    context: RequestContext = field(default_factory=RequestContext)
    max_tokens: int | None = None
    format: Literal["plain", "markdown", "xml"] = "plain"
    counter: Any = None
    document_id: str = ""
    document_collection: str | None = None
    over_own: bool = False

    @classmethod
    def of(
        cls,
        prefs: RetrievalPrefs,
        verb: Verb,
        *,
        vector: Vector | None = None,
        ctx: RequestContext | None = None,
    ) -> SearchRequest:
        """The request for the query of `prefs`."""
        return cls(verb, prefs.query_text, prefs, vector=vector, context=ctx or RequestContext())

    def resolve(self, own: RetrievalPrefs) -> SearchRequest:
        """The request with all its settings in `prefs`; `own` are those of the base.

        ConfigError for settings that are wrong, or have no meaning for the verb.
        """
        given = dict(self.settings)
        if self.verb == "search" and "top_k" in given:
            if "top_k_chunks" in given:
                raise _given_twice("top_k_chunks")
            given["top_k_chunks"] = given.pop("top_k")
        if "query_text" in given:
            raise _given_twice("query_text")
        if "filters" in given:
            given["filters"] = parse_filter(given["filters"])
        if self.max_tokens is not None:
            given["context"] = {**_fields(given.get("context")), "max_tokens": self.max_tokens}
        start = own if self.prefs is None else preferences(self.prefs)
        if self.over_own:
            start = own.overlaid(start)
        if given or start.query_text != self.query:
            start = start.replace(query_text=self.query, **given)
        start.check_call("retrieve" if self.verb == "why_not" else self.verb, self.settings)
        return replace(self, prefs=start, settings={}, max_tokens=None, over_own=False)

    def with_query(self, query: str) -> SearchRequest:
        """The same request for another query."""
        prefs = self.prefs
        if isinstance(prefs, RetrievalPrefs):
            prefs = prefs.model_copy(update={"query_text": query})
        return replace(self, query=query, prefs=prefs)

    @property
    def preferences(self) -> RetrievalPrefs:
        """The preferences of a request that is resolved."""
        assert not self.settings, "resolve the request first"
        return cast("RetrievalPrefs", self.prefs)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for."""
        return self.vector is None and not self.query.strip()


def preferences(given: RetrievalPrefs | str | None) -> RetrievalPrefs:
    """Preferences as they are, by the name of a preset, or the defaults."""
    return RetrievalPrefs.preset(given) if isinstance(given, str) else given or RetrievalPrefs()


def _fields(group: Mapping[str, Any] | Record | None) -> Mapping[str, Any]:
    """What is set in a group of settings."""
    return group.model_dump(exclude_unset=True) if isinstance(group, Record) else group or {}


def _given_twice(name: str) -> ConfigError:
    return ConfigError(f"{name}: given twice in one call; give it once")
