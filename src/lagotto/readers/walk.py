"""Walk the files of a folder in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lagotto.errors import ReadError

JUNK_FOLDERS = frozenset({"node_modules", "__pycache__", "CVS"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects files by glob.

    A pattern without a slash is matched against names (`*.md`, `drafts`), one with a slash against
    the path below the starting folder, where `**` matches any number of folders (`docs/**/*.md`).
    Without `include` all files are selected. `exclude` takes precedence and skips whole folders.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, parts: Sequence[str]) -> bool:
        """Whether the file with this path is selected."""
        return not self.include or any(matches(parts, pattern) for pattern in self.include)

    def drops(self, parts: Sequence[str]) -> bool:
        """Whether this file, or this folder with everything in it, is excluded."""
        return any(matches(parts, pattern) for pattern in self.exclude)


def matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a relative path, given as its parts, matches a glob."""
    segments = pattern.strip("/").split("/")
    if len(segments) == 1 and segments != ["**"]:
        return fnmatchcase(parts[-1], segments[0])
    return _match(parts, segments)


def _match(parts: Sequence[str], segments: Sequence[str]) -> bool:
    """Match segment by segment; `reached` holds the numbers of parts matched so far."""
    reached = {0}
    for segment in segments:
        if segment == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {
                used + 1
                for used in reached
                if used < len(parts) and fnmatchcase(parts[used], segment)
            }
        if not reached:
            return False
    return len(parts) in reached


def walk(root: Path, *, selection: Selection) -> Iterator[Path | ReadError]:
    """Yield the files below `root`, sorted by path, and an error for each unreadable folder.

    Hidden files and folders, `node_modules`, `__pycache__` and `CVS` are skipped. Links to folders
    are followed, but no folder is entered twice. Files that vanish during the walk are yielded, so
    that reading them reports an error.
    """
    entered: set[tuple[int, int]] = set()
    waiting: list[tuple[Path, tuple[str, ...]]] = [(root, ())]
    while waiting:
        path, parts = waiting.pop()
        try:
            if not path.is_dir():
                vanished = not path.exists() and not path.is_symlink()
                if vanished or (path.is_file() and selection.takes(parts)):
                    yield path
                continue
            status = path.stat()
            if (status.st_dev, status.st_ino) not in entered:
                entered.add((status.st_dev, status.st_ino))
                waiting += _entries(path, parts, selection)
        except OSError as exc:
            yield ReadError(path.as_posix(), f"can't open the folder: {exc.strerror or exc}")


def _entries(
    folder: Path, parts: tuple[str, ...], selection: Selection
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The entries of a folder that are not excluded, in reverse order for the stack of `walk`."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name for entry in entries), reverse=True)
    for name in names:
        path = folder / name
        junk = name in JUNK_FOLDERS and path.is_dir()
        if not name.startswith(".") and not junk and not selection.drops((*parts, name)):
            yield path, (*parts, name)
