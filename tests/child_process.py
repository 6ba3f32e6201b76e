"""A Python process that a test starts, talks to by lines, and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

Child = subprocess.Popen[str]


@contextmanager
def child(program: str, *args: object) -> Iterator[Child]:
    """A process that runs `program` with these arguments; killed at the end, with its forks."""
    command = [sys.executable, "-c", program, *map(str, args)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            kill_with_forks(process)


def kill_with_forks(process: Child) -> None:
    """Kill a child and what it has forked, which would keep its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def said(process: Child) -> str:
    """The next line that a child prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: Child, line: str = "") -> None:
    """Write a line to a child's stdin."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
