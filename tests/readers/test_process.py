"""Native parsers run in a child process: whatever a file does to it, the others are read."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import CorruptSourceError, EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers import Limits, ReadFailure, ReadOptions, Source, load, read_bytes
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.process import ISOLATED, ReaderProcess
from tests.readers import samples
from tests.readers.hostile_pdfs import double_flate, nested_forms
from tests.readers.test_contract import SAMPLES

pytestmark = pytest.mark.slow

SHORT = Limits(cpu_seconds=2.0, memory=1_000_000_000)


@pytest.fixture(scope="module")
def process() -> Iterator[ReaderProcess]:
    with closing(ReaderProcess()) as process:
        yield process


def read(process: ReaderProcess, name: str, data: bytes) -> list[Document | ReadError]:
    return list(process.read(name, Source(name=f"x.{name}", data=data), options=ReadOptions()))


@pytest.mark.parametrize("name", sorted(ISOLATED))
def test_gives_what_the_reader_gives(process: ReaderProcess, name: str) -> None:
    options = ReadOptions(collection="c", language="en", metadata={"shelf": 7})
    source = Source(name=f"x{min(SUFFIXES[name])}", data=SAMPLES[name])
    isolated = list(process.read(name, source, options=options))
    assert isolated == list(read_bytes(source.data, name=source.name, options=options)) != []


def test_files_are_read_by_their_paths(process: ReaderProcess, tmp_path: Path) -> None:
    file = tmp_path / "x.pdf"
    file.write_bytes(samples.PDF)
    (document,) = process.read("pdf", Source.of_path(file), options=ReadOptions())
    assert isinstance(document, Document)
    assert document.source == file.as_posix()
    assert document.updated_at is not None


def test_errors_keep_their_class(process: ReaderProcess) -> None:
    with pytest.raises(EmptySourceError, match=r"x\.pdf: empty file"):
        read(process, "pdf", b"")
    assert read(process, "pdf", samples.PDF)


@pytest.mark.parametrize(
    ("make", "cpu_seconds", "limit"),
    [(nested_forms, 2.0, "CPU time|memory"), (double_flate, 60.0, "600 MB of memory")],
)
def test_hostile_files_end_at_a_limit(
    make: Callable[[], bytes], cpu_seconds: float, limit: str
) -> None:
    limits = Limits(cpu_seconds=cpu_seconds, memory=600_000_000)
    with closing(ReaderProcess(limits)) as process:
        with pytest.raises((SourceTooLargeError, CorruptSourceError), match=limit):
            read(process, "pdf", make())
        assert read(process, "pdf", samples.PDF)


def test_wall_time_is_limited_too() -> None:
    """A child that sleeps uses no CPU time."""
    limits = Limits(cpu_seconds=0.01, wall_factor=0.0)
    too_large = pytest.raises(SourceTooLargeError, match="CPU time")
    with closing(ReaderProcess(limits)) as process, too_large:
        read(process, "pdf", samples.PDF)


def test_an_interrupt_ends_the_read_at_once() -> None:
    process = ReaderProcess()
    read(process, "pdf", samples.PDF)
    child = process._child
    threading.Timer(0.1, process.interrupt).start()
    with pytest.raises(ReadError, match="interrupted"):
        read(process, "pdf", nested_forms())
    assert child is not None
    assert child.wait(60) == -signal.SIGKILL  # not at the end of its work, or of its CPU time
    process.close()


def test_the_child_is_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pdf").write_bytes(samples.PDF)
    assert len(list(load(tmp_path))) == 1
    assert capfd.readouterr() == ("", "")


def test_one_hostile_file_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(samples.PDF)
    (tmp_path / "b.pdf").write_bytes(nested_forms())
    (tmp_path / "c.html").write_bytes(SAMPLES["html"])
    results = list(load(tmp_path, limits=SHORT))
    assert [type(result) for result in results] == [Document, ReadFailure, Document]
    assert results[1].source.endswith("b.pdf")


def test_nothing_follows_an_interrupt(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("text")
    loading = load(tmp_path)
    next(loading)
    loading.interrupt()
    assert list(loading) == []
