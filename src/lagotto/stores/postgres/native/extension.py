"""The parts of a view that only PostgreSQL has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lagotto.indexes.base import FilterKeys
from lagotto.stores.base import Passage
from lagotto.stores.capabilities import NativeParts
from lagotto.stores.postgres.chunk_words import parse_configs
from lagotto.stores.postgres.native.index import WordIndex
from lagotto.stores.postgres.native.search import NativeSearch
from lagotto.stores.postgres.native.single_query import SingleQuery
from lagotto.stores.postgres.native.trigram_text import TrigramIndex, TrigramTextComparison
from lagotto.stores.postgres.text_index.search import PostingsText
from lagotto.stores.postgres.transaction import ReadTransaction
from lagotto.stores.postgres.vector_index.search import PgVectors
from lagotto.stores.sql.view import Extension

RANK_FUNCTIONS = ("ts_rank", "ts_rank_cd")

__all__ = ["RANK_FUNCTIONS", "NativeExtension", "TrigramIndex", "WordIndex"]


class NativeExtension:
    """Creates the parts for views."""

    def __init__(self, words: WordIndex, trigrams: TrigramIndex) -> None:
        self._words = words
        self._trigrams = trigrams

    async def close(self) -> None:
        """Cancel a build of the index."""
        await self._words.close()

    def attach(
        self,
        reader: ReadTransaction,
        *,
        text: PostingsText,
        vectors: PgVectors,
        setting: str | None,
        languages: Callable[[], Awaitable[Sequence[str | None]]],
    ) -> Extension:
        """The parts for one view; `setting` is the value of `chunk_words.SETTING`."""
        known = text.known
        first = NativeSearch(
            reader,
            self._words,
            parse_configs(setting),
            last_key=known.last_key,
            languages=languages,
            allowed=None,
        )

        def parts(allowed: FilterKeys | None, prefetched: dict[int, Passage]) -> NativeParts:
            native = first if allowed is None else first.within(allowed)
            return NativeParts(
                native=native,
                trigram=TrigramTextComparison(reader, self._trigrams, known.chunks, allowed),
                single_query=SingleQuery(reader, vectors, native, known, allowed, prefetched),
            )

        return parts
