"""The memory of long-running processes: fewer arenas of malloc."""

from __future__ import annotations

import ctypes
import os
import sys

MOST = 2
_M_ARENA_MAX = -8
"""As in malloc.h of glibc."""


def limit_arenas(most: int = MOST) -> bool:
    """Make the threads of this process share `most` arenas; False where that can't be set.

    glibc gives threads arenas of their own, up to eight per CPU, and what is free in one is of no
    use to the others. Indexing happens in ever new threads, so the free memory of a server that
    is written to grew while what it used stayed the same (`benchmarks/serve.py --mixed`).

    For the start of a process of Lagotto's own, before there are threads. Whoever sets
    MALLOC_ARENA_MAX or GLIBC_TUNABLES has decided otherwise.
    """
    decided = {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & os.environ.keys()
    if decided or not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False  # a C library without it
    return bool(set_option(_M_ARENA_MAX, most))
