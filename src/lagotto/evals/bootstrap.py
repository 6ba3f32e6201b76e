"""How sure a mean over queries is: intervals of 95 % by the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLED = 2000


class Interval(NamedTuple):
    """A mean and the bounds of its interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The mean of `values`, one per query, with its interval; always the same for the same values.

    For the difference of two systems give the differences query by query: the interval is paired.
    """
    measured = np.asarray(values, np.float64)
    chance = np.random.default_rng(0)
    drawn = chance.integers(len(measured), size=(RESAMPLED, len(measured)))
    low, high = np.percentile(measured[drawn].mean(axis=1), [2.5, 97.5])
    return Interval(float(measured.mean()), float(low), float(high))
