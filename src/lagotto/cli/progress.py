"""Progress bars on stderr, if it is a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from lagotto._internal.display import counted
from lagotto.base.copy import CopyReport
from lagotto.base.ingest import Progress
from lagotto.base.rebuild import RebuildProgress
from lagotto.cli.options import INTERRUPTED
from lagotto.cli.output import one_line, say
from lagotto.readers.walk import Selection, walk

WHOLE_RUN = 86_400.0
"""Seconds. Batches take long, so the remaining time is estimated from the whole run."""


class ProgressBar:
    """A bar with one task, visible inside the `with` block; `stored` counts stored documents."""

    def __init__(self) -> None:
        self.stored = 0
        self._bar = _bar(Console(stderr=True))
        self._task = self._bar.add_task("", total=None, file="", counts="reading")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def kept(self) -> str:
        """What an interrupted command leaves."""
        return f"{counted(self.stored, 'document')} stored"


@contextmanager
def resumable(progress: ProgressBar) -> Iterator[None]:
    """Show `progress`; Ctrl-C ends the command, which says what is kept and how to continue."""
    try:
        with progress:
            yield
    except KeyboardInterrupt as exc:
        say(f"stopped: {progress.kept}; run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from exc


class RebuildMeter(ProgressBar):
    """The progress of a rebuild."""

    @property
    def kept(self) -> str:
        return f"the base is unchanged; {counted(self.stored, 'rebuilt document')} kept"

    def __call__(self, done: RebuildProgress) -> None:
        """Update the bar."""
        self.stored = done.done
        rate = done.chunks / done.seconds if done.seconds else 0.0
        self._bar.update(
            self._task,
            total=done.documents or None,
            completed=done.done,
            counts=f"{done.done} documents, {done.chunks} chunks, {rate:.0f} chunks/s",
        )


class CopyMeter(ProgressBar):
    """The progress of a copy: one half of the bar is copying, the other verifying."""

    def __call__(self, done: CopyReport) -> None:
        """Show a report of the copy."""
        self.stored = done.copied + done.unchanged
        self._bar.update(
            self._task,
            total=2 * done.documents,
            completed=self.stored + done.verified,
            counts=f"{self.stored} documents, {done.chunks} chunks, {done.verified} verified",
        )


class FetchMeter(ProgressBar):
    """The progress of a download."""

    def __call__(self, file: str, arrived: int, total: int | None) -> None:
        """Show how much of a file has arrived."""
        size = f" of {total / 1e6:.1f}" if total else ""
        counts = f"{arrived / 1e6:.1f}{size} MB"
        self._bar.update(self._task, total=total, completed=arrived, counts=counts, file=file)


class Meter(ProgressBar):
    """The progress of adding the files of `paths`."""

    def __init__(self, paths: Iterable[Path], *, selection: Selection | None = None) -> None:
        super().__init__()
        self._paths = paths
        self._selection = selection or Selection()
        self._ends: dict[str, int] = {}
        self._read = self._written = self._shown = 0

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._bar.disable:
            self._ends = _ends(self._paths, self._selection)
            self._bar.update(self._task, total=max(self._ends.values(), default=0) or None)
        return self

    def __call__(self, done: Progress) -> None:
        """Show a report of the ingest."""
        self.stored = done.added + done.updated + done.unchanged
        rate = done.embedded / done.seconds if done.seconds else 0.0
        counts = f"{done.read} read"
        if done.found:
            counts += f", {done.embedded} of {done.found} chunks, {rate:.0f}/s"
        self._bar.update(
            self._task,
            completed=self._bytes(done) if self._ends else None,
            counts=counts,
            file=one_line(Path(done.reading).name),
        )

    def _bytes(self, done: Progress) -> int:
        """The bytes of files that are done; of those under way, by the share of their chunks."""
        self._read = self._ends.get(done.reading, self._read)
        self._written = self._ends.get(done.source, self._written)
        under_way = done.found - done.chunks
        share = (done.embedded - done.chunks) / under_way if under_way > 0 else 0.0
        reached = self._written + int(max(0, self._read - self._written) * min(1.0, share))
        self._shown = max(self._shown, reached)  # a bar that goes back would confuse
        return self._shown


def _bar(console: Console) -> Bar:
    return Bar(
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left:", style="dim"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[file]}", style="dim", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=WHOLE_RUN,
    )


def _ends(paths: Iterable[Path], selection: Selection) -> dict[str, int]:
    """For each file, in reading order, the bytes up to its end: a measure of what is to be done."""
    ends: dict[str, int] = {}
    total = 0
    for path in paths:
        for item in walk(path, selection=selection) if path.is_dir() else [path]:
            if isinstance(item, Path):
                name = Path(os.path.realpath(item)).as_posix()
                with suppress(OSError):
                    total += item.stat().st_size + 1
                ends.setdefault(name, total)
    return ends
