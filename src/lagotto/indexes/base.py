"""What indexes have in common: the keys of chunks, and what a check of an index has found."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Record

ChunkKeys = NDArray[np.int64]
"""A store's own numbers for its chunks; a number is never used again."""


class Finding(Record):
    """What a check of a base has found, and what to do about it.

    A `note` repairs itself or does no harm, a `problem` makes answers wrong or incomplete.
    """

    level: Literal["ok", "note", "problem"]
    what: str
    advice: str = ""
