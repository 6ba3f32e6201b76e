"""Whether ONNX Runtime rearranges the weights of a model when it loads it.

That takes MiniLM 45 ms, and saves 3 to 5 in each run with a short text: not worth it for a command
that asks one question.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_wanted = True


def is_wanted() -> bool:
    """Whether a model that is loaded now is prepacked."""
    return _wanted


@contextmanager
def without_prepacking() -> Iterator[None]:
    """For a process that runs its models once: they are loaded as they are meanwhile."""
    global _wanted
    former, _wanted = _wanted, False
    try:
        yield
    finally:
        _wanted = former
