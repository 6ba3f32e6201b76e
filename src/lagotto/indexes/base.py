"""What indexes have in common: keys of chunks, positions in the change log, findings of a check."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Record

ChunkKeys = NDArray[np.int64]
"""A store's own numbers for its chunks; a number is never used again."""


class LogPosition(NamedTuple):
    """How far an index has followed the change log.

    `number` is the sequence number of the last change that it holds, `token` the random token of
    the commit which that change belongs to: the same number with another token is another history
    of the base, whose changes the index does not hold.
    """

    number: int
    token: int


START = LogPosition(0, 0)
"""An index that holds nothing yet belongs to any history."""


class Finding(Record):
    """What a check of a base has found, and what to do about it.

    A `note` repairs itself or does no harm, a `problem` makes answers wrong or incomplete.
    """

    level: Literal["ok", "note", "problem"]
    what: str
    advice: str = ""
