"""The methods that search a knowledge base: one search with three views, list, bundle and pack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from lagotto.base_parts import BaseParts
from lagotto.context import ContextPack, PackFormat, TokenCounter, build_pack, token_counter
from lagotto.documents import DEFAULT_COLLECTION, Vector, storable
from lagotto.errors import ConfigError, RebuiltError
from lagotto.filters import Filter, parse_filter
from lagotto.prefs import Mode, RetrievalPrefs, Verb
from lagotto.request_context import RequestContext
from lagotto.results import Results, RetrievalBundle
from lagotto.retrieval.base import Retriever
from lagotto.retrieval.retriever import HybridRetriever, PackMaterial
from lagotto.retrieval.why_not import WhyNot
from lagotto.stores.base import BaseConfig
from lagotto.tokens import Tokenizer

FilterLike = Filter | Mapping[str, object] | str | None

P = ParamSpec("P")
T = TypeVar("T")
Base = TypeVar("Base", bound="SearchVerbs")


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of an open base, and what searches with them."""

    parts: BaseParts
    retriever: HybridRetriever
    generation: int

    def fits(self, stored: BaseConfig) -> bool:
        """Whether the base is still made with these parts."""
        made = self.parts.config
        return (
            stored.generation == self.generation
            and stored.model_id in (None, made.model_id)
            and stored.chunker_id in (None, made.chunker_id)
        )


def follows_rebuilds(
    method: Callable[Concatenate[Base, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Base, P], Coroutine[Any, Any, T]]:
    """A verb that starts again, with other parts, if the base was rebuilt since it was opened."""

    @wraps(method)
    async def call(self: Base, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except RebuiltError:
            self._settled = False
            return await method(self, *args, **kwargs)

    return call


class SearchVerbs(ABC):
    """What can be asked of a knowledge base; `_prefs` are its own preferences."""

    _prefs: RetrievalPrefs
    _settled: bool

    @abstractmethod
    async def _ready(self) -> Assembled:
        """The embedder, the chunker and the retriever of the base, as it is made now."""

    @abstractmethod
    async def _collection_of(self, document_id: str) -> str:
        """The collection that has the document; the default one if it, or none, has it."""

    @follows_rebuilds
    async def retrieve(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> Results:
        """Return the best passages for `query` as a ranked list; empty for an empty query.

        `prefs` are RetrievalPrefs or the name of a preset, by default those of the base. The other
        arguments, and any setting of RetrievalPrefs passed by name, override them. `degraded` of
        the result lists what could not be used.
        """
        asked = self._asked(
            "retrieve",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        retriever = (await self._ready()).retriever
        return await retriever.retrieve(asked, query_vector=query_vector, ctx=request)

    @follows_rebuilds
    async def retrieve_many(
        self,
        /,
        queries: Sequence[str],
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> list[Results]:
        """Return the results of `retrieve` for each query; faster than one call per query."""
        first = self._asked(
            "retrieve",
            prefs,
            settings,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        asked = [first.model_copy(update={"query_text": query}) for query in queries]
        retriever = (await self._ready()).retriever
        return await retriever.retrieve_many(asked, ctx=request)

    @follows_rebuilds
    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> RetrievalBundle:
        """Return the best documents for `query`, and the passages that support them.

        The arguments are those of `retrieve`; `top_k` is the number of passages (`top_k_chunks`).
        """
        asked = self._asked(
            "search",
            prefs,
            settings,
            query_text=query,
            top_k_chunks=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        retriever = (await self._ready()).retriever
        return await retriever.search(request or RequestContext(), asked, query_vector=query_vector)

    @follows_rebuilds
    async def context(
        self,
        /,
        query: str,
        *,
        max_tokens: int | None = None,
        format: PackFormat = "plain",  # noqa: A002
        counter: TokenCounter | Tokenizer | str | None = None,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> ContextPack:
        """Return cited passages for a prompt, within `max_tokens`.

        `counter` counts tokens: the tokenizer of the model that will read the pack, a function, or
        `tiktoken:ENCODING`; by default the embedder's tokenizer. The other arguments are those of
        `retrieve`.
        """
        asked = self._asked(
            "context",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        if max_tokens is not None:
            asked = asked.replace(context={"max_tokens": max_tokens})
        ready = await self._ready()
        count = token_counter(counter or ready.parts.embedder.tokenizer)
        material = await ready.retriever.pack_material(
            asked, query_vector=query_vector, ctx=request
        )
        return await pack_of(material, asked, count=count, format=format)

    async def why_not(
        self,
        /,
        query: str,
        document_id: str,
        *,
        top_k: int | None = None,
        mode: Mode | None = None,
        filters: FilterLike = None,
        collection: str | None = None,
        prefs: RetrievalPrefs | str | None = None,
        query_vector: Vector | None = None,
        request: RequestContext | None = None,
        **settings: Any,
    ) -> WhyNot:
        """Explain why a document is not among the results of `retrieve`.

        The arguments are those of `retrieve`, which is run once; `results` of the answer has its
        results. The document is looked up in `collection`; without one, in the default collection
        first, and then in the others.
        """
        asked = self._asked(
            "retrieve",
            prefs,
            settings,
            query_text=query,
            top_k=top_k,
            mode=mode,
            filters=filters,
            collection=collection,
        )
        document_id = storable(document_id)
        name = (asked.collection or await self._collection_of(document_id), document_id)
        return await self._why_not(asked, name, query_vector=query_vector, request=request)

    @property
    def retriever(self) -> Retriever:
        """The base as a Retriever: `await base.retriever.search(ctx, prefs)`."""
        return KnowledgeBaseRetriever(self)

    @follows_rebuilds
    async def _why_not(
        self,
        asked: RetrievalPrefs,
        name: tuple[str, str],
        *,
        query_vector: Vector | None,
        request: RequestContext | None,
    ) -> WhyNot:
        """Explain it of the document with this collection and id."""
        collection, document_id = name
        retriever = (await self._ready()).retriever
        return await retriever.why_not(
            asked,
            collection=collection,
            document_id=document_id,
            query_vector=query_vector,
            ctx=request,
        )

    @follows_rebuilds
    async def _search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        return await (await self._ready()).retriever.search(ctx, prefs)

    def _asked(
        self,
        verb: Verb,
        prefs: RetrievalPrefs | str | None,
        settings: Mapping[str, Any],
        **given: Any,
    ) -> RetrievalPrefs:
        """The preferences of one call: those of the base, or `prefs`, with what was given."""
        changes = {name: value for name, value in given.items() if value is not None}
        if twice := sorted(changes.keys() & settings.keys()):
            raise ConfigError(f"{', '.join(twice)}: given twice in one call; give it once")
        if isinstance(filters := changes.get("filters"), str | Mapping):
            changes["filters"] = parse_filter(filters)
        start = self._prefs if prefs is None else preferences(prefs)
        asked = start.replace(**changes, **settings)
        asked.check_call(verb, settings)
        return asked


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRetriever:
    """A Retriever that searches a base, without the preferences of the base."""

    base: SearchVerbs

    async def search(self, ctx: RequestContext, prefs: RetrievalPrefs) -> RetrievalBundle:
        """Return the best documents for the query, and the passages that support them."""
        return await self.base._search(ctx, prefs)


def home_of(collections: Sequence[str]) -> str:
    """The collection that is meant by an id alone, of those that have a document with this id."""
    elsewhere = DEFAULT_COLLECTION not in collections
    return min(collections) if collections and elsewhere else DEFAULT_COLLECTION


def preferences(given: RetrievalPrefs | str | None) -> RetrievalPrefs:
    """Preferences as they are, by the name of a preset, or the defaults."""
    return RetrievalPrefs.preset(given) if isinstance(given, str) else given or RetrievalPrefs()


async def pack_of(
    material: PackMaterial,
    prefs: RetrievalPrefs,
    *,
    count: TokenCounter,
    format: PackFormat,  # noqa: A002
) -> ContextPack:
    """The pack view of a search."""
    found, diagnostics = material.results, material.diagnostics
    with diagnostics.stage("pack"):
        pack = await build_pack(
            prefs.query_text,
            results=found,
            chunks=material.chunks,
            count=count,
            prefs=prefs.context,
            format=format,
            candidates=found.candidates,
            reranked=material.reranked,
            notes=found.degraded,
        )
    return pack.with_stats(diagnostics.stats(prefs, found.stats.counts))
