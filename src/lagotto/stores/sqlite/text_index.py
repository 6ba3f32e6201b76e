"""What the embedded store asks of its full-text index, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lagotto.indexes.base import ChunkKeys, Finding, LogPosition
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.text_query import Match, TextQuery


class TextIndexLeg(Protocol):
    """Full text over the chunks of a base.

    `connection` is the search's own: an index inside the database sees the state it sees. Such an
    index is written with the chunks (`index`, `forget`), one beside it follows (`catch_up`).
    """

    quick: bool
    """Whether a search takes about a millisecond as long as the base is small."""

    def search(
        self,
        connection: Connection,
        query: TextQuery,
        *,
        k: int,
        allowed: FilterKeys | None,
    ) -> Hits:
        """The best `k` chunks that the query asks for, of those allowed."""
        ...

    def scores(
        self, connection: Connection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        """The score of each of `keys`, 0 where the query asks for other chunks."""
        ...

    def matching(self, connection: Connection, match: Match, among: ChunkKeys) -> ChunkKeys:
        """Those of the ascending keys `among` for which `match` holds."""
        ...

    def frequencies(self, connection: Connection, terms: Sequence[str]) -> list[int]:
        """How many chunks hold each of `terms`."""
        ...

    def vocabulary(self, connection: Connection) -> Sequence[str]:
        """All terms."""
        ...

    def index(self, connection: Connection, *, since: int) -> None:
        """Take in the chunks behind a change number, in the transaction that writes them."""
        ...

    def forget(self, connection: Connection, document_keys: Sequence[int]) -> None:
        """Let go of the chunks of documents, in the transaction that deletes them."""
        ...

    @property
    def position(self) -> LogPosition:
        """The last change that an index beside the database holds; START inside it."""
        ...

    def catch_up(self, connection: Connection, *, until: LogPosition) -> bool:
        """Bring an index beside the database to a position, for all questions that follow.

        An index of another history is rebuilt. False if the index is ahead: another search saw a
        later state of the database, or this one is older than its index.
        """
        ...

    def discard(self, former: LogPosition) -> None:
        """Empty an index that is still at a position which the database does not have."""
        ...

    def check(self, connection: Connection, *, until: LogPosition) -> Finding:
        """Whether the index is there, whole, and has all changes up to a position."""
        ...
