"""Memory: the garbage collector paused while many records are made, and fewer arenas of malloc."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Make many records without the collector walking through all of them again and again.

    None of them is part of a cycle, and collecting takes almost half of the time of making 20,000
    hits. For loops that don't wait for anything; several threads may be inside at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


MOST = 2
LARGE = 4 * 2**20
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""As in malloc.h of glibc."""


def limit_arenas() -> bool:
    """Make the threads of this process share two arenas; False where that can't be set.

    glibc gives threads arenas of their own, up to eight per CPU, and what is free in one is of no
    use to the others. Indexing happens in ever new threads, so the free memory of a server that
    is written to grew while what it used stayed the same (`benchmarks/serve.py --mixed`). Blocks of
    4 MB and more go back to the system when they are freed: by default glibc keeps all of them
    after the first one, and a server that had sent 60 documents of 8 MB kept 380 MB for ever.

    For the start of a process of Lagotto's own, before there are threads.
    MALLOC_ARENA_MAX and GLIBC_TUNABLES take precedence.
    """
    decided = {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & os.environ.keys()
    if decided or not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False  # a C library without it
    return bool(set_option(_M_ARENA_MAX, MOST) and set_option(_M_MMAP_THRESHOLD, LARGE))
