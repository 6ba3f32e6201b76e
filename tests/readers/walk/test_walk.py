from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.readers.walk import Selection, matches, walk


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")


def found(root: Path, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    items = walk(root, selection=Selection(include=include, exclude=exclude))
    paths = [item for item in items if isinstance(item, Path)]
    return [path.relative_to(root).as_posix() for path in paths]


def test_recursive_and_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a/z.md", "a/b/c.md", "c.md", "B.md")
    assert found(tmp_path) == ["B.md", "a/b/c.md", "a/z.md", "b.md", "c.md"]


def test_hidden_and_junk(tmp_path: Path) -> None:
    make(tmp_path, ".git/x", ".hidden", "a/.svn/y", "node_modules/z.js", "a/__pycache__/c.py")
    make(tmp_path, "b/node_modules", "kept.txt")
    assert found(tmp_path) == ["b/node_modules", "kept.txt"]


def test_a_hidden_folder_can_be_asked_for(tmp_path: Path) -> None:
    make(tmp_path, ".notes/a.md")
    assert found(tmp_path / ".notes") == ["a.md"]


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/old/d.md", "drafts/e.md")
    assert found(tmp_path, include=("*.md",)) == [
        "a.md",
        "docs/c.md",
        "docs/old/d.md",
        "drafts/e.md",
    ]
    assert found(tmp_path, include=("docs/**",), exclude=("old",)) == ["docs/c.md"]
    assert found(tmp_path, exclude=("*.md", "docs")) == ["b.txt"]
    assert found(tmp_path, include=("docs/*.md", "b.*")) == ["b.txt", "docs/c.md"]


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b/c.md", "*.md", True),
        ("a/b/c.md", "a/*.md", False),
        ("a/b/c.md", "a/**/*.md", True),
        ("a/c.md", "a/**/*.md", True),
        ("a/b/c.md", "**/c.md", True),
        ("a/b/c.md", "**", True),
        ("a/b/c.md", "**/b/**", True),
        ("a/b/c.md", "/a/b/c.md", True),
        ("a/b/c.md", "b/c.md", False),
        ("a/b", "a/?/", True),
        ("a/C.md", "c.md", False),
    ],
)
def test_globs(path: str, pattern: str, *, expected: bool) -> None:
    assert matches(path.split("/"), pattern) is expected


@given(st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=6))
def test_a_path_matches_itself_and_any_depth(parts: list[str]) -> None:
    path = "/".join(parts)
    assert matches(parts, f"**/{path}")
    assert matches(["x", *parts], f"**/{path}")
    assert matches([*parts, "x"], f"{path}/**")


def test_links_in_a_circle(tmp_path: Path) -> None:
    make(tmp_path, "a/b/file.md")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "self").symlink_to("self")
    (tmp_path / "nowhere").symlink_to("missing")
    assert found(tmp_path) == ["a/b/file.md"]


def test_links_to_other_folders_are_followed_once(tmp_path: Path) -> None:
    make(tmp_path, "elsewhere/file.md", "root/x.md")
    (tmp_path / "root" / "one").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "root" / "two").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert found(tmp_path / "root") == ["one/file.md", "x.md"]


def test_what_vanished_is_left_for_the_reader_to_report(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md")
    items = walk(tmp_path, selection=Selection(include=("*.md",)))
    assert next(items) == tmp_path / "a.md"
    (tmp_path / "b.md").unlink()
    assert list(items) == [tmp_path / "b.md"]
    gone = tmp_path / "gone"
    assert list(walk(gone, selection=Selection(include=("*.md",)))) == [gone]
