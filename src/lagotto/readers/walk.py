"""Walk the files of a folder in a fixed order, without those that are ignored or unwanted."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field

from lagotto._internal.display import counted
from lagotto._internal.locations import belongs_to_base
from lagotto.documents import Record, storable
from lagotto.errors import ReadError
from lagotto.readers.base import Source

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


SECRETS = (
    *(
        "*.pem",
        "*.ppk",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.env",
        ".env",
        ".env.*",
    ),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".htpasswd"),
    *(".npmrc", ".pypirc", ".git-credentials"),
)
LOCK_FILES = (
    *("*.lock", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "packages.lock.json"),
    *("gradle.lockfile", "go.sum", "bun.lockb"),
)
MINIFIED = ("*.min.js", "*.min.mjs", "*.min.css", "*.js.map", "*.mjs.map", "*.css.map")
PICTURES = ("*.svg",)
"""Text, but of drawings."""

BY_NAME: tuple[tuple[SkipReason, tuple[str, ...]], ...] = (
    ("secret", SECRETS),
    ("lock file", LOCK_FILES),
    ("minified", MINIFIED),
    ("unsupported", PICTURES),
)
VENDORED = frozenset(
    {"node_modules", "bower_components", "jspm_packages", "site-packages", "third_party", "Pods"}
)
GENERATED = frozenset({"__pycache__", "__pypackages__", "CVS"})
PACKAGE_FILES = ("go.mod", "composer.json", "Gemfile", "Cargo.toml")
"""Beside one of these, `vendor` holds the code of others. Elsewhere it may be about suppliers."""

PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY")
SCRIPTS = frozenset({".js", ".mjs", ".css"})
LONG_LINE = 1_000
HEAD = 8_192


def unwanted_folder(path: Path) -> SkipReason | None:
    """Why a folder is left out, if it is."""
    if path.name in GENERATED:
        return "generated"
    if path.name in VENDORED or (path / "pyvenv.cfg").exists():
        return "vendored"
    beside = path.name == "vendor" and any((path.parent / name).exists() for name in PACKAGE_FILES)
    return "vendored" if beside else None


def unwanted_name(name: str) -> SkipReason | None:
    """Why a file is left out because of its name, if it is."""
    folded = name.lower()
    for reason, patterns in BY_NAME:
        if any(fnmatchcase(folded, pattern) for pattern in patterns):
            return reason
    return None


def unwanted_content(source: Source) -> SkipReason | None:
    """Why a file is left out because of how it begins, if it is."""
    head = source.head(HEAD)
    if PRIVATE_KEY.search(head):
        return "secret"
    if source.suffix in SCRIPTS and max(map(len, head.split(b"\n"))) > LONG_LINE:
        return "minified"
    return None


NAMES = (".gitignore", ".lagottoignore")
"""Patterns of the second one take precedence."""
MOST_BYTES = 1_000_000
ESCAPED = re.compile(r"\\(.)")
WILD = re.compile(r"[*?]|\[.*")
"""What a glob matches other than itself; behind a bracket, for simplicity, everything."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    segments: tuple[str, ...]
    negated: bool
    folders_only: bool
    literal: str
    """A part of every name that matches: looking for it takes a fiftieth of matching the glob."""


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of the folder at a depth below the top."""

    depth: int
    patterns: tuple[Pattern, ...]

    def verdict(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Whether the last pattern that matches a path ignores it; None if none matches."""
        below = parts[self.depth :]
        for pattern in reversed(self.patterns):
            possible = pattern.literal in below[-1] and (folder or not pattern.folders_only)
            if possible and match_segments(below, pattern.segments):
                return not pattern.negated
        return None


class IgnoreFiles:
    """The ignore files above and in the folders of a walk.

    In a git repository those of the folders above `root`, up to the top of the repository, count
    too.
    """

    def __init__(self, root: Path) -> None:
        top = _repository(root)
        self._above = root.relative_to(top).parts
        folders = [top.joinpath(*self._above[:depth]) for depth in range(len(self._above))]
        found = (_load(folder, depth) for depth, folder in enumerate(folders))
        self.inherited = tuple(file for file in found if file is not None)

    def of_folder(
        self, folder: Path, parts: Sequence[str], inherited: tuple[IgnoreFile, ...]
    ) -> tuple[IgnoreFile, ...]:
        """The files that count inside a folder, `parts` below the root; the nearest one last."""
        own = _load(folder, len(self._above) + len(parts))
        return inherited if own is None else (*inherited, own)

    def ignored(self, parts: Sequence[str], files: tuple[IgnoreFile, ...], *, folder: bool) -> bool:
        """Whether the nearest file with a matching pattern ignores a path below the root."""
        path = (*self._above, *parts)
        for file in reversed(files):
            verdict = file.verdict(path, folder=folder)
            if verdict is not None:
                return verdict
        return False


def _repository(root: Path) -> Path:
    """The top of the git repository that holds `root`, or `root` itself."""
    return next((path for path in (root, *root.parents) if (path / ".git").exists()), root)


def _load(folder: Path, depth: int) -> IgnoreFile | None:
    patterns: list[Pattern] = []
    for name in NAMES:
        path = folder / name
        if path.is_file():
            with path.open("rb") as stream:
                text = stream.read(MOST_BYTES).decode("utf-8-sig", errors="replace")
            patterns += parse_patterns(text)
    last = dict.fromkeys(reversed(patterns))  # of equal ones the last decides
    return IgnoreFile(depth, tuple(reversed(last))) if patterns else None


def parse_patterns(text: str) -> Iterator[Pattern]:
    """The patterns of an ignore file; blank lines and comments are none."""
    for line in text.splitlines():
        kept = line.rstrip(" \t")
        if kept.endswith("\\") and kept != line:
            kept += line[len(kept)]  # an escaped space
        negated = kept.startswith("!")
        pattern = kept[1:] if negated else kept
        segments = pattern.strip("/").split("/")
        if kept.startswith("#") or segments == [""]:
            continue
        anchored = "/" in pattern.rstrip("/")
        if segments[-1] == "**":
            segments.append("*")  # what is inside, not the folder itself
        globs = tuple(map(_glob, segments if anchored else ["**", *segments]))
        yield Pattern(
            segments=globs,
            negated=negated,
            folders_only=pattern.endswith("/"),
            literal=max(WILD.split(globs[-1]), key=len),
        )


def _glob(segment: str) -> str:
    """A segment as fnmatch writes it: `[*]` for an escaped star, `[!a]` for `[^a]`."""
    plain = ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], segment)
    return plain.replace("[^", "[!")


def match_segments(parts: Sequence[str], segments: Sequence[str]) -> bool:
    """Whether a path matches segment by segment; `**` matches any number of folders."""
    reached = {0}  # the numbers of parts matched so far
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


REPOSITORIES = frozenset({".git", ".hg", ".svn", ".bzr"})
"""The stores of version control, which are never read."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects files by glob.

    A pattern without a slash is matched against names (`*.md`, `drafts`), one with a slash against
    the path below the starting folder, where `**` matches any number of folders (`docs/**/*.md`).
    Without `include` all files are selected. `exclude` takes precedence and skips whole folders.

    `everything` also selects hidden files, those that .gitignore and .lagottoignore name, and those
    of the unwanted kinds.
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
