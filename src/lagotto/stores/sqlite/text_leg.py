"""What the embedded store asks of its full-text index, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto.stores.base import ChunkKeys, TextQuery
from lagotto.stores.hits import Hits


class TextLeg(Protocol):
    """Full text over the chunks of a base.

    `connection` is the search's own: an index inside the database sees the state it sees. Such an
    index is written with the chunks (`index`, `forget`), one beside it follows (`catch_up`).
    """

    async def search(
        self,
        connection: AsyncConnection,
        query: TextQuery,
        *,
        k: int,
        allowed: ChunkKeys | None,
    ) -> Hits:
        """The best `k` chunks that hold a term, of those allowed."""
        ...

    async def scores(
        self, connection: AsyncConnection, query: TextQuery, keys: ChunkKeys
    ) -> NDArray[np.float32]:
        """The score of each of `keys`, 0 without any term."""
        ...

    async def unknown(self, connection: AsyncConnection, terms: Sequence[str]) -> set[str]:
        """Those of `terms` that no chunk holds."""
        ...

    async def vocabulary(self, connection: AsyncConnection) -> Sequence[str]:
        """All terms."""
        ...

    async def index(self, connection: AsyncConnection, *, since: int) -> None:
        """Take in the chunks behind a change number, in the transaction that writes them."""
        ...

    async def forget(self, connection: AsyncConnection, document_keys: Sequence[int]) -> None:
        """Let go of the chunks of documents, in the transaction that deletes them."""
        ...

    async def catch_up(self, connection: AsyncConnection, *, until: int) -> None:
        """Bring an index beside the database to a change number."""
        ...
