"""Which of some keys are among others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST_TABLE = 2**26
"""A table has a byte for every number between the least key and the greatest."""


def are_among(keys: NDArray[np.integer], others: NDArray[np.integer]) -> NDArray[np.bool_]:
    """For each of `keys`, whether it is one of `others`.

    Keys are mostly dense, and then a table is ten times as quick as sorting.
    """
    dense = len(others) > 0 and int(others.max()) - int(others.min()) < LARGEST_TABLE
    return np.isin(keys, others, kind="table" if dense else "sort")
