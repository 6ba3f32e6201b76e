"""Searches on their way to a server and back: bodies of requests, and results from answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagotto.documents import Vector
from lagotto.filters import Filter, parse_filter
from lagotto.prefs import RetrievalPrefs, Verb
from lagotto.results import Results, RetrievalResult, RetrievalStats
from lagotto.search_verbs import FilterLike, preferences


class AskedSearch:
    """The arguments of a search, as the body of a request."""

    def __init__(
        self,
        query: str,
        top_k: int | None,
        mode: str | None,
        filters: FilterLike,
        collection: str | None,
        prefs: RetrievalPrefs | str | None,
        vector: Vector | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._given = {"query": query, "top_k": top_k, "mode": mode, "collection": collection}
        self._filters = filters
        self._prefs = prefs
        self._vector = vector
        self._settings = settings

    def body(self, verb: Verb) -> dict[str, Any]:
        """The body, checked here as it will be there."""
        preset = self._prefs if isinstance(self._prefs, str) else None
        start = None if preset or self._prefs is None else preferences(self._prefs)
        own = start.given_for(verb) if start else {}
        given = {name: value for name, value in self._given.items() if value is not None}
        if "top_k" in given:
            own.pop("top_k_chunks", None)
        body = {**own, **_plain(self._settings), **given}
        if self._filters is not None:
            body["filters"] = parse_filter(self._filters).to_json()
        if preset:
            body["prefs"] = preset
        if self._vector is not None:
            body["query_vector"] = [float(number) for number in self._vector]
        return body


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON: groups may be records."""
    return {
        name: value.model_dump(mode="json", exclude_unset=True)
        if hasattr(value, "model_dump")
        else value.to_json()
        if isinstance(value, Filter)
        else value
        for name, value in settings.items()
    }


def results_of(found: Mapping[str, Any]) -> Results:
    """The ranked list in an answer."""

    def hits(name: str) -> Iterator[RetrievalResult]:
        for hit in found.get(name, ()):
            yield RetrievalResult(**fields_of(RetrievalResult, hit))

    stats = RetrievalStats(**found["stats"])
    return Results(hits("hits"), candidates=tuple(hits("candidates")), stats=stats)


def fields_of(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record among those of an answer."""
    return {name: found[name] for name in kind.model_fields if name in found}
