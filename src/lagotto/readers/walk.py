"""The files below a folder, always in the same order."""

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
    """Which files to take, by glob.

    A pattern without a slash is compared with a name (`*.md`, `drafts`), one with a slash with the
    path below the starting folder, where `**` stands for any number of folders (`docs/**/*.md`).
    Without `include` every file is taken. `exclude` wins; it cuts off whole folders as well.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, parts: Sequence[str]) -> bool:
        """Whether to take the file with this path."""
        return not self.include or any(matches(parts, pattern) for pattern in self.include)

    def drops(self, parts: Sequence[str]) -> bool:
        """Whether to leave out this file, or this folder with all that is in it."""
        return any(matches(parts, pattern) for pattern in self.exclude)


def matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a relative path, given as its parts, matches a glob."""
    segments = pattern.strip("/").split("/")
    if len(segments) == 1 and segments != ["**"]:
        return fnmatchcase(parts[-1], segments[0])
    return _match(parts, segments)


def _match(parts: Sequence[str], segments: Sequence[str]) -> bool:
    """`reached` holds how many parts the segments so far can have used up."""
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
    """The files below `root`, sorted by path, and an error for each folder that can't be opened.

    Hidden files and folders (so also those of version control) and folders of junk are left out.
    Links to folders are followed, but no folder is entered twice. Files that vanish meanwhile
    are still named, so that reading them says so.
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
            yield ReadError(path.as_posix(), f"it can't be opened: {exc.strerror or exc}")


def _entries(
    folder: Path, parts: tuple[str, ...], selection: Selection
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """What is in a folder and not left out, last name first: the walk takes from the end."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name for entry in entries), reverse=True)
    for name in names:
        path = folder / name
        junk = name in JUNK_FOLDERS and path.is_dir()
        if not name.startswith(".") and not junk and not selection.drops((*parts, name)):
            yield path, (*parts, name)
