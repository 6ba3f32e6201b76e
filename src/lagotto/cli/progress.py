"""A progress bar on stderr, if that is a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from lagotto.base_copy import CopyReport
from lagotto.cli.output import one_line
from lagotto.ingest import Progress
from lagotto.readers.walk import Selection, walk

WHOLE_RUN = 86_400.0
"""Seconds; batches take long, so the time that remains is guessed from all of them."""


class Shown:
    """A bar with one task, shown while it is entered."""

    def __init__(self) -> None:
        self.stored = 0
        self._bar = _bar(Console(stderr=True))
        self._task = self._bar.add_task("", total=None, file="", counts="reading")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


class CopyMeter(Shown):
    """Takes the reports of a copy; half of the bar is for copying, half for verifying."""

    def __call__(self, done: CopyReport) -> None:
        """Show how far the copy has got."""
        self.stored = done.copied + done.unchanged
        self._bar.update(
            self._task,
            total=2 * done.documents,
            completed=self.stored + done.verified,
            counts=f"{self.stored} documents, {done.chunks} chunks, {done.verified} verified",
        )


class Meter(Shown):
    """Takes the reports of an ingest over the files of `paths`, and shows them while it is entered.

    `stored` is how many documents are safe.
    """

    def __init__(
        self, paths: Iterable[Path], *, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._paths = paths
        self._selection = Selection(include=tuple(include), exclude=tuple(exclude))
        self._places: dict[str, int] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._bar.disable:
            self._places = _places(self._paths, self._selection)
            self._bar.update(self._task, total=len(self._places) or None)
        return self

    def __call__(self, done: Progress) -> None:
        """Show how far the ingest has got."""
        self.stored = done.added + done.updated + done.unchanged
        rate = done.chunks / done.seconds if done.seconds else 0.0
        self._bar.update(
            self._task,
            completed=self._places.get(done.source),
            counts=f"{done.documents} documents, {done.chunks} chunks, {rate:.0f} chunks/s",
            file=one_line(Path(done.source).name),
        )


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


def _places(paths: Iterable[Path], selection: Selection) -> dict[str, int]:
    """Each file's place, from 1, in the order in which files are read."""
    places: dict[str, int] = {}
    for path in paths:
        for item in walk(path, selection=selection) if path.is_dir() else [path]:
            if isinstance(item, Path):
                name = Path(os.path.realpath(item)).as_posix()
                places.setdefault(name, len(places) + 1)
    return places
