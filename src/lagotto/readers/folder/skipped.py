"""What was not read, counted by reason and named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import Field

from lagotto.display import counted
from lagotto.documents import Record, storable

SkipReason = Literal[
    "unsupported",
    "empty",
    "no text layer",
    "excluded",
    "hidden",
    "ignored",
    "secret",
    "lock file",
    "minified",
    "generated",
    "vendored",
]
"""Why a file or folder was not read.

Formats without a reader, and files without text; `include` and `exclude`; hidden names and the
patterns of .gitignore and .lagottoignore; and what is in a folder, but hardly meant to be searched.
"""

MOST_NAMED = 10_000
"""So many files are named; all are counted."""


class SkippedFile(Record):
    """A file that was not read, or a folder with everything in it; its name ends with a slash."""

    source: str
    reason: SkipReason


class Skipped(Record):
    """What was not read.

    `counts` has the number of files and folders by reason, for unsupported formats by suffix.
    `files` names them, up to 10,000.
    """

    counts: dict[str, int] = Field(default_factory=dict)
    folders: int = 0
    files: tuple[SkippedFile, ...] = ()

    @property
    def total(self) -> int:
        """The number of files and folders."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        files = self.total - self.folders
        what = [counted(files, "file")] if files else []
        what += [counted(self.folders, "folder")] if self.folders else []
        reasons = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons)
        return f"{' and '.join(what) or '0 files'} skipped{': ' if listed else ''}{listed}"


class SkipLog:
    """Collects what is skipped."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._folders = 0
        self._files: list[SkippedFile] = []
        self.unread = 0
        """Files that the walk selected, and that were skipped for what is in them."""

    def add(
        self, path: Path, reason: SkipReason, *, folder: bool = False, unread: bool = False
    ) -> None:
        """Note that a file, or a folder with all its files, is not read.

        `unread` is a file that the walk selected.
        """
        self.unread += unread
        suffix = storable(path.suffix.lower()) or "without suffix"
        self._counts[suffix if reason == "unsupported" else reason] += 1
        self._folders += folder
        if len(self._files) < MOST_NAMED:
            name = storable(path.as_posix()) + ("/" if folder else "")
            self._files.append(SkippedFile(source=name, reason=reason))

    def merge(self, other: SkipLog) -> None:
        """Add what another log has collected."""
        self._counts += other._counts
        self._folders += other._folders
        self._files += other._files[: MOST_NAMED - len(self._files)]

    def result(self) -> Skipped:
        """What was skipped so far."""
        return Skipped(counts=dict(self._counts), folders=self._folders, files=tuple(self._files))
