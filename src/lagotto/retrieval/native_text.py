"""Full text ranked by the functions of the store's server, where a search asks for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lagotto.errors import QueryError, StoreError
from lagotto.indexes.text_query import NativeQuery
from lagotto.prefs import RetrievalPrefs
from lagotto.retrieval.diagnostics import Diagnostics
from lagotto.retrieval.query.syntax import ParsedQuery, parse_query
from lagotto.stores.base import Capabilities, View

_OPERATORS = re.compile(r"<(?:-|\d+)>|:[A-Da-d*]+|[&|!()'\"\\]")


def native_query(prefs: RetrievalPrefs, can: Capabilities) -> NativeQuery | None:
    """The query for the server, None if BM25 ranks."""
    fts = prefs.fts
    if fts.rank_func == "bm25" or fts.rank_func not in can.rank_functions:
        return None
    return NativeQuery(prefs.query_text, fts.mode, fts.rank_func, fts.config)


class NativeText:
    """One query as the server's own search gets it, and parsed for all the rest."""

    def __init__(
        self, prefs: RetrievalPrefs, can: Capabilities, languages: Sequence[str | None]
    ) -> None:
        self._query = native_query(prefs, can)
        self._refused: QueryError | None = None
        self.parsed = self._read(prefs, languages)

    def _read(self, prefs: RetrievalPrefs, languages: Sequence[str | None]) -> ParsedQuery:
        """The query by our own syntax, or only its words where the server may know more."""
        try:
            return parse_query(prefs.query_text, prefs.fts.mode, languages)
        except QueryError as exc:
            if self._query is None:
                raise
            self._refused = exc
            return parse_query(_OPERATORS.sub(" ", prefs.query_text), "any", languages)

    async def prepared(self, view: View, diagnostics: Diagnostics) -> NativeQuery | None:
        """The query, once the server is ready for it; None, and a note, if it can't be.

        A query that the server refuses as well is a QueryError: our own, which says where.
        """
        if self._query is None or view.native is None:
            return None
        try:
            await view.native.prepare(self._query)
        except (QueryError, StoreError) as exc:
            if self._refused is not None:
                raise self._refused from exc
            if isinstance(exc, QueryError):
                raise
            note = f"words are ranked by bm25, not by {self._query.function} ({exc})"
            diagnostics.note("text", note, cause=exc)
            return None
        return self._query
