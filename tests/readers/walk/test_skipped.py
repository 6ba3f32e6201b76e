"""Whatever is not read is counted by reason, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.readers import ReadFailure, Skipped, load
from lagotto.readers.walk import MOST_NAMED, SkipLog

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


def test_a_named_file_is_read_whatever_it_is_called(tree: Path) -> None:
    [document] = load(tree / "server.pem")
    assert isinstance(document, Document)


def test_named_files_without_text_are_skipped_too(tree: Path) -> None:
    loading = load([tree / "empty.txt", tree / "kept.md"])
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
