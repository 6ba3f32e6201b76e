"""Progress on stderr: a bar if it is a terminal, else a line every few seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich import progress
from rich.console import Console

from lagotto._internal.display import counted
from lagotto.base.copy import CopyReport
from lagotto.base.ingest import Progress
from lagotto.base.rebuild import RebuildProgress
from lagotto.cli.options import INTERRUPTED
from lagotto.cli.output import one_line, say

WHOLE_RUN = 86_400.0
"""Seconds. Batches take long, so the remaining time is estimated from the whole run."""


FIRST_LINE = 2.0
LINE_EVERY = 5.0
"""Seconds until the first line where there is no terminal, and between lines."""
MANY_FILES, MANY_BYTES = 20, 1_000_000
"""Work that takes a while: what there is to read is said at once."""


class ProgressBar(progress.Progress):
    """A bar with one task, visible inside the `with` block; `stored` counts stored documents."""

    def __init__(self) -> None:
        self.stored = 0
        console = Console(stderr=True)
        super().__init__(
            progress.SpinnerColumn(),
            progress.BarColumn(bar_width=20),
            progress.TextColumn("{task.fields[counts]}", markup=False),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left:", style="dim"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[file]}", style="dim", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=WHOLE_RUN,
        )
        self._task = self.add_task("", total=None, file="", counts="reading")

    def _show(
        self, counts: str, completed: float | None, total: float | None, file: str = ""
    ) -> None:
        self.update(self._task, counts=counts, completed=completed, total=total, file=file)

    @property
    def summary(self) -> str:
        return f"{counted(self.stored, 'document')} stored"


@contextmanager
def resumable(meter: ProgressBar) -> Iterator[None]:
    """Show `meter`; Ctrl-C ends the command, which says what is kept and how to continue."""
    try:
        with meter:
            yield
    except KeyboardInterrupt as exc:
        say(f"stopped: {meter.summary}; run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from exc


class RebuildMeter(ProgressBar):
    """The progress of a rebuild."""

    @property
    def summary(self) -> str:
        return f"the base is unchanged; {counted(self.stored, 'rebuilt document')} kept"

    def __call__(self, done: RebuildProgress) -> None:
        self.stored = done.done
        rate = done.chunks / done.seconds if done.seconds else 0.0
        counts = f"{done.done} documents, {done.chunks} chunks, {rate:.0f} chunks/s"
        self._show(counts, done.done, done.documents or None)


class CopyMeter(ProgressBar):
    """The progress of a copy: one half of the bar is copying, the other verifying."""

    def __call__(self, done: CopyReport) -> None:
        self.stored = done.copied + done.unchanged
        counts = f"{self.stored} documents, {done.chunks} chunks, {done.verified} verified"
        self._show(counts, self.stored + done.verified, 2 * done.documents)


class FetchMeter(ProgressBar):
    """The progress of a download."""

    def __call__(self, file: str, arrived: int, total: int | None) -> None:
        size = f" of {total / 1e6:.1f}" if total else ""
        self._show(f"{arrived / 1e6:.1f}{size} MB", arrived, total, file)


class Meter(ProgressBar):
    """The progress of adding files."""

    def __init__(self) -> None:
        super().__init__()
        self._next_line = FIRST_LINE
        self._started = False

    def __call__(self, done: Progress) -> None:
        self.stored = done.added + done.updated + done.unchanged
        rate = done.embedded / done.seconds if done.seconds else 0.0
        counts = f"{done.read} read"
        if done.found:
            counts += f", {done.embedded} of {done.found} chunks, {rate:.0f}/s"
        file = one_line(Path(done.reading).name)
        is_long = done.files >= MANY_FILES or done.size >= MANY_BYTES
        if self.disable and is_long and not self._started:
            say(f"reading {counted(done.files, 'file')}, {done.size / 1e6:.1f} MB")
        self._started = True
        if self.disable and done.seconds >= self._next_line:
            self._next_line = done.seconds + LINE_EVERY
            share = "" if done.share is None else f", {done.share:.0%}"
            say(f"{done.seconds:.0f} s{share}: {counts}; {file}")
        self._show(counts, done.share, None if done.share is None else 1.0, file)
