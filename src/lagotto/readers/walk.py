"""Walk the files of a folder in a fixed order, without those that are ignored or unwanted."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

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

    def add(self, path: Path, reason: SkipReason, *, folder: bool = False) -> None:
        """Note that a file, or a folder with all its files, is not read."""
        suffix = storable(path.suffix.lower()) or "without suffix"
        self._counts[suffix if reason == "unsupported" else reason] += 1
        self._folders += folder
        if len(self._files) < MOST_NAMED:
            name = storable(path.as_posix()) + ("/" if folder else "")
            self._files.append(SkippedFile(source=name, reason=reason))

    def merge(self, other: SkipLog) -> None:
        self._counts += other._counts
        self._folders += other._folders
        self._files += other._files[: MOST_NAMED - len(self._files)]

    def result(self) -> Skipped:
        return Skipped(counts=dict(self._counts), folders=self._folders, files=tuple(self._files))


BY_NAME: dict[SkipReason, str] = {
    "secret": "*.pem *.ppk *.p12 *.pfx *.jks *.keystore *.kdbx *.env .env .env.* id_rsa id_dsa"
    " id_ecdsa id_ed25519 .netrc _netrc .pgpass .htpasswd .npmrc .pypirc .git-credentials",
    "lock file": "*.lock package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json"
    " gradle.lockfile go.sum bun.lockb",
    "minified": "*.min.js *.min.mjs *.min.css *.js.map *.mjs.map *.css.map",
    "unsupported": "*.svg",  # text, but of drawings
}
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


def unwanted_content(source: Source) -> SkipReason | None:
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


class Pattern(NamedTuple):
    """One line of an ignore file."""

    segments: tuple[str, ...]
    negated: bool
    folders_only: bool
    literal: str
    """A part of every name that matches: looking for it takes a fiftieth of matching the glob."""


class IgnoreFile(NamedTuple):
    """The patterns of the folder at a depth below the top of the repository, or of the walk."""

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


def _load(folder: Path, depth: int) -> tuple[IgnoreFile, ...]:
    """The ignore file of a folder, if it has one with patterns."""
    patterns: list[Pattern] = []
    for name in NAMES:
        path = folder / name
        if path.is_file():
            with path.open("rb") as stream:
                text = stream.read(MOST_BYTES).decode("utf-8-sig", errors="replace")
            patterns += parse_patterns(text)
    last = dict.fromkeys(reversed(patterns))  # of equal ones the last decides
    return (IgnoreFile(depth, tuple(reversed(last))),) if patterns else ()


def parse_patterns(text: str) -> Iterator[Pattern]:
    """The patterns of an ignore file; blank lines and comments are none."""
    for line in text.splitlines():
        rule = line.rstrip(" \t")
        if rule.endswith("\\") and rule != line:
            rule += line[len(rule)]  # an escaped space
        pattern = rule.removeprefix("!")
        segments = pattern.strip("/").split("/")
        if rule.startswith("#") or segments == [""]:
            continue
        if segments[-1] == "**":
            segments.append("*")  # what is inside, not the folder itself
        anchored = "/" in pattern.rstrip("/")
        globs = tuple(map(_glob, segments if anchored else ["**", *segments]))
        yield Pattern(
            segments=globs,
            negated=rule.startswith("!"),
            folders_only=pattern.endswith("/"),
            literal=max(WILD.split(globs[-1]), key=len),
        )


def _glob(segment: str) -> str:
    """A segment as fnmatch writes it: `[*]` for an escaped star, `[!a]` for `[^a]`."""
    plain = ESCAPED.sub(lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], segment)
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


class Selection(NamedTuple):
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


def matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a relative path, given as its parts, matches a glob."""
    segments = pattern.strip("/").split("/")
    if len(segments) == 1 and segments != ["**"]:
        return fnmatchcase(parts[-1], segments[0])
    return match_segments(parts, segments)


_Entry = tuple[Path, tuple[str, ...], tuple[IgnoreFile, ...]]
"""A path, its parts below the root, and the ignore files that count there, nearest last."""


class Walk:
    """The files below `root`, sorted by path, and an error for each unreadable folder.

    What is not selected is in `skipped`. Links to folders are followed, but no folder is entered
    twice. Files that vanish during the walk are yielded, so that reading them reports an error. In
    a git repository the ignore files of the folders above `root` count too, up to the top of the
    repository.
    """

    def __init__(self, root: Path, selection: Selection) -> None:
        self.root = root
        self.skipped = SkipLog()
        self._selection = selection
        self._entered: set[tuple[int, int]] = set()
        absolute = Path(os.path.abspath(root))  # noqa: PTH100 links stay
        folders = (absolute, *absolute.parents)
        top = next((path for path in folders if (path / ".git").exists()), absolute)
        self._above = absolute.relative_to(top).parts
        self._inherited = tuple(
            file
            for depth in range(len(self._above))
            for file in _load(top.joinpath(*self._above[:depth]), depth)
        )

    def __iter__(self) -> Iterator[Path | ReadError]:
        include = self._selection.include
        waiting: list[_Entry] = [(self.root, (), self._inherited)]
        while waiting:
            path, parts, ignore = waiting.pop()
            try:
                if path.is_dir():
                    status = path.stat()
                    if (status.st_dev, status.st_ino) not in self._entered:
                        self._entered.add((status.st_dev, status.st_ino))
                        waiting += self._inside((path, parts, ignore))
                elif not path.exists() and not path.is_symlink():
                    yield path  # it has vanished
                elif path.is_file():
                    if not include or any(matches(parts, pattern) for pattern in include):
                        yield path
                    else:
                        self.skipped.add(path, "excluded")
            except OSError as exc:
                yield ReadError(path.as_posix(), f"can't open the folder: {exc.strerror or exc}")

    def _inside(self, entry: _Entry) -> Iterator[_Entry]:
        """The entries of a folder that are not skipped, in reverse order for the stack."""
        folder, above, ignore = entry
        ignore = (*ignore, *_load(folder, len(self._above) + len(above)))
        for name in sorted((path.name for path in folder.iterdir()), reverse=True):
            path = folder / name
            if belongs_to_base(path):
                continue  # not worth mentioning: most bases are beside their documents
            inner = path, (*above, name), ignore
            if reason := self._reason(inner):
                self.skipped.add(path, reason, folder=path.is_dir())
            else:
                yield inner

    def _reason(self, entry: _Entry) -> SkipReason | None:
        path, parts, ignore = entry
        if path.name in REPOSITORIES:
            return "hidden"
        if any(matches(parts, pattern) for pattern in self._selection.exclude):
            return "excluded"
        if self._selection.everything:
            return None
        folder = path.is_dir()
        if unwanted := _unwanted_folder(path) if folder else _unwanted_name(path.name.lower()):
            return unwanted
        if path.name.startswith("."):
            return "hidden"
        below_top = (*self._above, *parts)
        verdicts = (file.verdict(below_top, folder=folder) for file in reversed(ignore))
        ignored = next((verdict for verdict in verdicts if verdict is not None), False)
        return "ignored" if ignored else None


def _unwanted_folder(path: Path) -> SkipReason | None:
    if path.name in GENERATED:
        return "generated"
    beside = path.name == "vendor" and any((path.parent / name).exists() for name in PACKAGE_FILES)
    if beside or path.name in VENDORED or (path / "pyvenv.cfg").exists():
        return "vendored"
    return None


def _unwanted_name(name: str) -> SkipReason | None:
    for reason, patterns in BY_NAME.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return reason
    return None
