"""Which files of a folder are read; the others are counted by reason, and named."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.readers import ReadFailure, Skipped, load
from lagotto.readers import walk as readers_walk
from lagotto.readers.walk import (
    MOST_NAMED,
    IgnoreFile,
    Selection,
    SkipLog,
    Walk,
    match_segments,
    matches,
    parse_patterns,
)


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")


def found(root: Path, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    items = Walk(root, Selection(include=include, exclude=exclude))
    paths = [item for item in items if isinstance(item, Path)]
    return [path.relative_to(root).as_posix() for path in paths]


def test_recursive_and_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a/z.md", "a/b/c.md", "c.md", "B.md")
    assert found(tmp_path) == ["B.md", "a/b/c.md", "a/z.md", "b.md", "c.md"]


def test_hidden_folders_can_be_asked_for(tmp_path: Path) -> None:
    make(tmp_path, ".git/x", ".hidden", "a/.svn/y", "node_modules/z.js", "a/__pycache__/c.py")
    make(tmp_path, "b/node_modules", "kept.txt", ".notes/a.md")
    assert found(tmp_path) == ["b/node_modules", "kept.txt"]
    assert found(tmp_path / ".notes") == ["a.md"]


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.txt", "docs/c.md", "docs/old/d.md", "drafts/e.md")
    everywhere = ["a.md", "docs/c.md", "docs/old/d.md", "drafts/e.md"]
    assert found(tmp_path, include=("*.md",)) == everywhere
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
    items = iter(Walk(tmp_path, Selection(include=("*.md",))))
    assert next(items) == tmp_path / "a.md"
    (tmp_path / "b.md").unlink()
    assert list(items) == [tmp_path / "b.md"]
    gone = tmp_path / "gone"
    assert list(Walk(gone, Selection(include=("*.md",)))) == [gone]


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
        ("b/", "a/b/", True),
        ("b", "a/b/", True),
    ],
)
def test_patterns(patterns: str, path: str, expected: bool) -> None:
    file = IgnoreFile(0, tuple(parse_patterns(patterns)))
    verdict = file.verdict(path.strip("/").split("/"), folder=path.endswith("/"))
    assert bool(verdict) is expected


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


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"
FILES: dict[str, tuple[str | bytes, str]] = {
    "a.png": (PNG, "unsupported"),
    "b.PNG": (PNG, "unsupported"),
    "talk.key": (PNG, "unsupported"),
    "drawing.svg": ("<svg><text>x</text></svg>", "unsupported"),
    "empty.txt": ("", "empty"),
    "blank.md": (" \n", "empty"),
    "server.pem": ("x", "secret"),
    "id_rsa": ("x", "secret"),
    ".env": ("KEY=1", "secret"),
    "prod.env": ("KEY=1", "secret"),
    "notes.txt.bak": (KEY, "secret"),
    "poetry.lock": ("x", "lock file"),
    "package-lock.json": ("{}", "lock file"),
    "go.sum": ("x", "lock file"),
    "a.min.js": ("x", "minified"),
    "a.js": ("/* licence */\n" + "var a=1;" * 200, "minified"),
    "a.css.map": ("{}", "minified"),
    ".hidden": ("x", "hidden"),
    "drafts.tmp": ("x", "ignored"),
    "private.md": ("x", "ignored"),
}
FOLDERS = {
    "node_modules/x/a.js": "vendored",
    "lib/third_party/b.c": "vendored",
    "vendor/x/c.go": "vendored",
    "env/pyvenv.cfg": "vendored",
    "a/__pycache__/d.py": "generated",
    ".git/config": "hidden",
}
KEPT = {"kept.md", "short.js", "public.crt", "deals/vendor/offer.md", "lock.md"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in (*FOLDERS, *KEPT):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("some text")
    (tmp_path / "go.mod").write_text("module x")
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    (tmp_path / ".lagottoignore").write_text("private.md\n")
    return tmp_path


def read(root: Path, *, everything: bool = False) -> tuple[set[str], Skipped]:
    loading = load(root, everything=everything)
    results = list(loading)
    assert not [result for result in results if isinstance(result, ReadFailure)]
    sources = {Path(item.source).relative_to(root).as_posix() for item in results}
    return sources, loading.skipped


def test_every_reason(tree: Path) -> None:
    sources, skipped = read(tree)
    assert sources == KEPT | {"go.mod"}
    named = {Path(file.source).relative_to(tree).as_posix(): file for file in skipped.files}
    reasons = {name: file.reason for name, file in named.items()}
    expected = {name: reason for name, (_, reason) in FILES.items()}
    expected |= {name.rpartition("/")[0].removesuffix("/x"): why for name, why in FOLDERS.items()}
    expected |= {".gitignore": "hidden", ".lagottoignore": "hidden"}
    assert reasons == expected
    assert skipped.counts[".png"] == 2
    assert skipped.counts[".key"] == 1
    assert skipped.folders == len(FOLDERS)
    assert skipped.total == len(expected)
    assert all(file.source.endswith("/") for file in skipped.files if "/x" in file.source)


def test_everything(tree: Path) -> None:
    sources, skipped = read(tree, everything=True)
    assert {"server.pem", ".env", "node_modules/x/a.js", "a.min.js", "drafts.tmp"} <= sources
    assert {file.reason for file in skipped.files} == {"unsupported", "empty", "hidden"}
    assert skipped.counts["hidden"] == 1  # the store of version control


def test_what_the_caller_excludes(tmp_path: Path) -> None:
    (tmp_path / "drafts").mkdir()
    for name in ("a.md", "b.txt", "drafts/c.md"):
        (tmp_path / name).write_text("text")
    loading = load(tmp_path, include=["*.md"], exclude=["drafts"])
    assert len(list(loading)) == 1
    assert str(loading.skipped) == "1 file and 1 folder skipped: 2 excluded"


def test_a_named_file_is_read_whatever_it_is_called_unless_it_is_empty(tree: Path) -> None:
    loading = load([tree / "empty.txt", tree / "server.pem"])
    assert [type(result) for result in loading] == [Document]
    assert str(loading.skipped) == "1 file skipped: 1 empty"


def test_as_text() -> None:
    log = SkipLog()
    for number in range(8):
        log.add(Path(f"{number}.png"), "unsupported")
    for number in range(4):
        log.add(Path(f"{number}.key"), "unsupported")
    assert str(log.result()) == "12 files skipped: 8 .png, 4 .key"
    log.add(Path("Makefile.bin/x"), "unsupported")
    log.add(Path("a"), "hidden", folder=True)
    expected = "13 files and 1 folder skipped: 8 .png, 4 .key, 1 hidden, 1 without suffix"
    assert str(log.result()) == expected
    assert str(SkipLog().result()) == "0 files skipped"


def test_names_are_bounded_and_counts_are_not() -> None:
    log = SkipLog()
    for number in range(MOST_NAMED + 5):
        log.add(Path(str(number)), "hidden")
    assert len(log.result().files) == MOST_NAMED
    assert log.result().total == MOST_NAMED + 5
