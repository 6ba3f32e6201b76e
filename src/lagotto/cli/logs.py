"""What `--verbose` shows: the log of the package, on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class StderrHandler(logging.Handler):
    """Writes to what is stderr at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        print(self.format(record), file=sys.stderr)


@contextmanager
def logging_to_stderr(verbose: int) -> Iterator[None]:
    """Show what is logged at the level that so many `-v` stand for; without any, warnings."""
    if not verbose:
        yield
        return
    package, handler = logging.getLogger("lagotto"), StderrHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    before = package.level
    package.setLevel(LEVELS[min(verbose, len(LEVELS) - 1)])
    package.addHandler(handler)
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(before)
