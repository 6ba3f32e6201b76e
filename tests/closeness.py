"""Comparison of results but for the last digits of scores.

A chunk that an index does not hold yet is scored from the record, in double precision, and by the
index afterwards, in single precision.
"""

from __future__ import annotations

from math import isclose
from typing import Any


def are_close(first: Any, second: Any) -> bool:
    """Whether two results, as plain data, are the same but for the seventh digit of numbers."""
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            are_close(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(are_close, first, second))
    return bool(first == second)
