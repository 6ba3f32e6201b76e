"""Walk the files of a folder in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lagotto.errors import ReadError
from lagotto.locations import belongs_to_base
from lagotto.readers.folder.ignore_files import IgnoreFile, IgnoreFiles, match_segments
from lagotto.readers.folder.skipped import SkipLog, SkipReason
from lagotto.readers.folder.unwanted import unwanted_folder, unwanted_name

REPOSITORIES = frozenset({".git", ".hg", ".svn", ".bzr"})
"""The stores of version control, which are never read."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects files by glob.

    A pattern without a slash is matched against names (`*.md`, `drafts`), one with a slash against
    the path below the starting folder, where `**` matches any number of folders (`docs/**/*.md`).
    Without `include` all files are selected. `exclude` takes precedence and skips whole folders.

    `everything` also selects hidden files, those that .gitignore and .lagottoignore name, and those
    of the kinds in `unwanted.py`.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    everything: bool = False

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
    return match_segments(parts, segments)


def walk(
    root: Path, *, selection: Selection, skipped: SkipLog | None = None
) -> Iterator[Path | ReadError]:
    """Yield the files below `root`, sorted by path, and an error for each unreadable folder.

    What is not selected is added to `skipped`. Links to folders are followed, but no folder is
    entered twice. Files that vanish during the walk are yielded, so that reading them reports an
    error.
    """
    return _Walk(root, selection, skipped or SkipLog()).files()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A path, its parts below the root, and the ignore files that count there."""

    path: Path
    parts: tuple[str, ...]
    ignore: tuple[IgnoreFile, ...]


class _Walk:
    """One walk through a folder."""

    def __init__(self, root: Path, selection: Selection, skipped: SkipLog) -> None:
        self._root = root
        self._selection = selection
        self._skipped = skipped
        self._ignore = IgnoreFiles(Path(os.path.abspath(root)))  # noqa: PTH100 links stay
        self._entered: set[tuple[int, int]] = set()

    def files(self) -> Iterator[Path | ReadError]:
        waiting = [_Entry(self._root, (), self._ignore.inherited)]
        while waiting:
            entry = waiting.pop()
            path = entry.path
            try:
                if not path.is_dir():
                    vanished = not path.exists() and not path.is_symlink()
                    if vanished or (path.is_file() and self._takes(entry)):
                        yield path
                    continue
                status = path.stat()
                if (status.st_dev, status.st_ino) not in self._entered:
                    self._entered.add((status.st_dev, status.st_ino))
                    waiting += self._inside(entry)
            except OSError as exc:
                yield ReadError(path.as_posix(), f"can't open the folder: {exc.strerror or exc}")

    def _takes(self, entry: _Entry) -> bool:
        taken = self._selection.takes(entry.parts)
        if not taken:
            self._skipped.add(entry.path, "excluded")
        return taken

    def _inside(self, folder: _Entry) -> Iterator[_Entry]:
        """The entries of a folder that are not skipped, in reverse order for the stack."""
        ignore = self._ignore.of_folder(folder.path, folder.parts, folder.ignore)
        with os.scandir(folder.path) as entries:
            names = sorted((entry.name for entry in entries), reverse=True)
        for name in names:
            entry = _Entry(folder.path / name, (*folder.parts, name), ignore)
            if belongs_to_base(entry.path):
                continue  # not worth mentioning: most bases are beside their documents
            reason = self._reason(entry)
            if reason is None:
                yield entry
            else:
                self._skipped.add(entry.path, reason, folder=entry.path.is_dir())

    def _reason(self, entry: _Entry) -> SkipReason | None:
        """Why an entry is skipped, if it is."""
        name = entry.parts[-1]
        everything = self._selection.everything
        if name in REPOSITORIES:
            return "hidden"
        if self._selection.drops(entry.parts):
            return "excluded"
        if everything:
            return None
        folder = entry.path.is_dir()
        unwanted = unwanted_folder(entry.path) if folder else unwanted_name(name)
        if unwanted is not None:
            return unwanted
        if name.startswith("."):
            return "hidden"
        return "ignored" if self._ignore.ignored(entry.parts, entry.ignore, folder=folder) else None
