"""What is left when a save doesn't come to its end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import IO

import pytest

from lagotto.errors import StoreError, StoreFullError, StoreReadOnlyError
from lagotto.indexes.base import LogPosition
from tests.indexes.vectors.made import is_whole, load, made

pytestmark = pytest.mark.slow


class Fault(BaseException):
    """The process ends here."""


STEPS = ["fsync", "rename", "mkdir", "rmdir", "unlink"]
"""What the system is asked to do in the course of a save."""


def fail_at(monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException) -> list[str]:
    """Let the `step`-th of these calls be carried out, then raise `error`; the calls so far."""
    calls: list[str] = []

    def wrapped(name: str) -> Callable[..., object]:
        real = getattr(os, name)

        def call(*args: object, **options: object) -> object:
            result = real(*args, **options)
            calls.append(name)
            if len(calls) == step:
                raise error
            return result

        return call

    for name in STEPS:
        monkeypatch.setattr(os, name, wrapped(name))
    return calls


@pytest.mark.parametrize("kind", [Fault(), OSError(errno.EIO, "I/O error")], ids=["end", "error"])
def test_a_fault_at_any_step_leaves_a_whole_generation(tmp_path: Path, kind: BaseException) -> None:
    steps = takewhile(lambda step: fault_strikes(tmp_path / str(step), step, kind), count(1))
    assert len(list(steps)) >= 15


def fault_strikes(folder: Path, step: int, kind: BaseException) -> bool:
    """Save over an older generation with a fault at `step`, and check what is left."""
    made(120).save(folder, LogPosition(120, 0))
    index = made(130)
    with pytest.MonkeyPatch.context() as monkeypatch, suppress(Fault, StoreError):
        calls = fail_at(monkeypatch, step, kind)
        index.save(folder, LogPosition(130, 0))
    assert is_whole(load(folder), sizes={120, 130})
    assert len(index.snapshot) == 130
    index.save(folder, LogPosition(130, 0))
    assert is_whole(load(folder), sizes={130})
    assert len(list(folder.iterdir())) == 1
    return len(calls) >= step


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StoreFullError),
        (errno.EACCES, StoreReadOnlyError),
        (errno.EIO, StoreError),
    ],
)
def test_what_the_system_says_becomes_a_store_error(
    saved: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[StoreError]
) -> None:
    fail_at(monkeypatch, 2, OSError(number, "no"))
    with pytest.raises(error, match=r"index can't be written"):
        made(200).save(saved, LogPosition(200, 0))
    monkeypatch.undo()
    assert [path.name for path in saved.iterdir()] == ["00000001"]


WRITER = """
import sys
from itertools import count
from pathlib import Path
from lagotto.indexes.base import LogPosition
from tests.indexes.vectors.made import made

for size in count(101):
    made(size).save(Path(sys.argv[1]), LogPosition(size, 0))
    print(size, flush=True)
"""

ANY_SIZE = set(range(100, 10_000))


@contextmanager
def writer(folder: Path) -> Iterator[IO[str]]:
    """A process that saves one generation after another until it is killed; what it prints."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        yield process.stdout
        process.kill()


def test_a_killed_writer_leaves_a_whole_generation(tmp_path: Path) -> None:
    for attempt in range(8):
        with writer(tmp_path) as said:
            for _ in range(1 + attempt):
                size = int(said.readline())
            time.sleep(0.001 * attempt)
        index = load(tmp_path)
        assert is_whole(index, sizes=ANY_SIZE)
        assert len(index.snapshot) >= size


def test_readers_find_a_whole_generation_while_another_process_writes(tmp_path: Path) -> None:
    made(100).save(tmp_path, LogPosition(100, 0))
    seen: set[int] = set()
    with writer(tmp_path) as said:
        while len(seen) < 20:
            assert said.readline(), "the writer ended"
            index = load(tmp_path)
            assert is_whole(index, sizes=ANY_SIZE)
            seen.add(len(index.snapshot))
