"""What a filter lets through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from lagotto.filters import Filter
from lagotto.stores.base import ChunkKeys
from lagotto.stores.filter_sql import concerns_chunks, condition
from lagotto.stores.reading import matching_chunks
from lagotto.stores.tables import DocumentRow


@dataclass(frozen=True, slots=True)
class Allowed:
    """The chunks that a search may find, ascending.

    Where these are all chunks of some documents, `documents` are their keys: there are fewer of
    them, so they are looked for in less time.
    """

    keys: ChunkKeys
    documents: NDArray[np.int64] | None = None


def allowed_by(connection: Connection, where: Filter) -> Allowed:
    """The chunks that can be found and match."""
    keys = matching_chunks(connection, where)
    if concerns_chunks(where):
        return Allowed(keys)
    documents = connection.scalars(select(DocumentRow.key).where(condition(where))).all()
    return Allowed(keys, np.fromiter(documents, np.int64, len(documents)))
