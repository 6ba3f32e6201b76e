"""What a filter lets through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.indexes.base import ChunkKeys


@dataclass(frozen=True, slots=True)
class FilterKeys:
    """The chunks that a search may find, ascending.

    Where these are all chunks of some documents, `documents` are their keys: there are fewer of
    them, so they are looked for in less time.
    """

    keys: ChunkKeys
    documents: NDArray[np.int64] | None = None
