"""Patterns of .gitignore and .lagottoignore, with the meaning that git gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

NAMES = (".gitignore", ".lagottoignore")
"""Patterns of the second one take precedence."""
MOST_BYTES = 1_000_000
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    segments: tuple[str, ...]
    negated: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of the folder at a depth below the top."""

    depth: int
    patterns: tuple[Pattern, ...]

    def verdict(self, parts: Sequence[str], *, folder: bool) -> bool | None:
        """Whether the last pattern that matches a path ignores it; None if none matches."""
        below = parts[self.depth :]
        for pattern in reversed(self.patterns):
            if (folder or not pattern.folders_only) and match_segments(below, pattern.segments):
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
    return IgnoreFile(depth, tuple(patterns)) if patterns else None


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
        yield Pattern(
            segments=tuple(map(_glob, segments if anchored else ["**", *segments])),
            negated=negated,
            folders_only=pattern.endswith("/"),
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
