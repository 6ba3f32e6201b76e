"""Python's cyclic garbage collector, paused where many records are made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Make many records without the collector walking through all of them again and again.

    None of them is part of a cycle, and collecting takes almost half of the time of making 20,000
    hits. For loops that don't wait for anything; several threads may be inside at once.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
