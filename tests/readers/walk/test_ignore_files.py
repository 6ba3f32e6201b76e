from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.readers import walk as readers_walk
from lagotto.readers.walk import (
    IgnoreFile,
    Selection,
    SkipLog,
    match_segments,
    parse_patterns,
    walk,
)


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")


def found(root: Path) -> list[str]:
    items = walk(root, selection=Selection(), skipped=SkipLog())
    return [item.relative_to(root).as_posix() for item in items if isinstance(item, Path)]


def ignores(patterns: str, path: str, *, folder: bool = False) -> bool:
    file = IgnoreFile(0, tuple(parse_patterns(patterns)))
    return bool(file.verdict(path.split("/"), folder=folder))


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        ("*.log", "a/b.log", True),
        ("/b.log", "a/b.log", False),
        ("a/*.log", "a/b.log", True),
        ("a/*.log", "x/a/b.log", False),
        ("**/a/*.log", "x/a/b.log", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**/c", "a/c", True),
        ("# no\n\n*.log", "b.log", True),
        ("\\#yes", "#yes", True),
        ("\\!yes", "!yes", True),
        ("*.log\n!b.log", "b.log", False),
        ("!b.log\n*.log", "b.log", True),
        ("b.log   ", "b.log", True),
        ("b\\ ", "b ", True),
        ("a?c", "abc", True),
        ("a[bx]c", "abc", True),
        ("a[^b]c", "abc", False),
        ("a\\*c", "abc", False),
        ("a\\*c", "a*c", True),
        ("b/", "b", False),
    ],
)
def test_patterns(patterns: str, path: str, expected: bool) -> None:
    assert ignores(patterns, path) is expected


def test_patterns_of_folders() -> None:
    assert ignores("b/", "a/b", folder=True)
    assert ignores("b", "a/b", folder=True)


def test_files_of_inner_folders_take_precedence(tmp_path: Path) -> None:
    make(tmp_path, "a.tmp", "in/a.tmp", "in/b.tmp", "out/c.md", "in/d.md")
    (tmp_path / ".gitignore").write_text("*.tmp\nout/\n")
    (tmp_path / "in" / ".lagottoignore").write_text("!b.tmp\nd.md\n")
    assert found(tmp_path) == ["in/b.tmp"]


def test_the_rest_of_a_repository_counts(tmp_path: Path) -> None:
    make(tmp_path, "docs/a.md", "docs/b.tmp", "docs/build/c.md")
    (tmp_path / ".gitignore").write_text("*.tmp\n/docs/build\ndocs/\n")
    assert found(tmp_path / "docs") == ["a.md", "b.tmp", "build/c.md"]
    (tmp_path / ".git").mkdir()
    assert found(tmp_path / "docs") == ["a.md"]


NAMES = st.sampled_from(["a", "b", "ab", "c.md", "b.md"])
PATTERN = st.lists(
    st.sampled_from(["a", "b", "*", "**", "?b", "*.md", "[ab]", "[!a]", "c.md"]),
    min_size=1,
    max_size=3,
).map("/".join)
LINE = st.builds(
    lambda negated, start, pattern, end: negated + start + pattern + end,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    PATTERN,
    st.sampled_from(["", "/"]),
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@given(
    lines=st.lists(LINE, min_size=1, max_size=4),
    paths=st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=6),
)
def test_the_same_as_git(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], paths: list[list[str]]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    for parts in paths:
        folder = root.joinpath(*parts[:-1])
        if not any(parent.is_file() for parent in (folder, *folder.parents)):
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / parts[-1]).is_dir():
                (folder / parts[-1]).write_text("x")
    (root / ".gitignore").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {line for line in listed.stdout.splitlines() if not line.startswith(".")}
    assert set(found(root)) == expected


def test_many_patterns_are_matched_only_where_they_can_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fnmatch compiles a pattern in a tenth of a millisecond, and forgets most of so many."""
    make(tmp_path, *(f"f{number}.md" for number in range(20)))
    lines = [*(f"x{number}*y/?z{number}" for number in range(40_000)), "*.log", *["*7.md"] * 9_999]
    (tmp_path / ".gitignore").write_text("\n".join(lines))
    tried: list[str] = []

    def counted(parts: Sequence[str], segments: Sequence[str]) -> bool:
        tried.append(segments[-1])
        return match_segments(parts, segments)

    monkeypatch.setattr(readers_walk, "match_segments", counted)
    assert found(tmp_path) == sorted(f"f{n}.md" for n in range(20) if n not in (7, 17))
    assert set(tried) == {"*7.md"}
    assert len(tried) == 2
