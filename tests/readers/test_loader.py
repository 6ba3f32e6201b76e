from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sentencex import get_sentence_boundaries

from lagotto.documents import Document
from lagotto.errors import ReadError, UnknownNameError, UnsupportedFormatError
from lagotto.readers import (
    READERS,
    ReadFailure,
    ReadOptions,
    Source,
    load,
    read_bytes,
    read_path,
    read_text,
)
from lagotto.readers.formats import OLE_MAGIC, Formats
from tests.panics import PANICS
from tests.readers import samples
from tests.readers.pdf_maker import make_pdf
from tests.readers.samples import failure_of


def test_source_is_the_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to("a.txt")
    monkeypatch.chdir(tmp_path)
    [here], [link] = read_path("a.txt"), read_path("link.txt")
    [there] = read_path(tmp_path / "a.txt")
    assert here == there == link
    assert here.source == (tmp_path / "a.txt").resolve().as_posix()


def test_changed_file_keeps_its_id_and_has_the_time_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one", encoding="utf-8")
    [before] = read_path(path)
    path.write_text("two", encoding="utf-8")
    os.utime(path, (0, 86_400))
    [after] = read_path(path)
    assert before.id == after.id
    assert before.content_hash != after.content_hash
    assert (after.created_at, after.updated_at) == (None, datetime(1970, 1, 2, tzinfo=UTC))


@pytest.mark.parametrize("path", ["missing.txt", "nul\0byte", "", "x" * 5000])
def test_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReadError):
        list(read_path(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ReadError, match="not a regular file"):
        list(read_path(tmp_path / "pipe.txt"))


def test_text_with_title_and_source() -> None:
    [document] = read_text("# Heading\n\nBody", kind="markdown", title="Mine", source="note:1")
    assert (document.title, document.source, document.kind) == ("Mine", "note:1", "markdown")
    [anonymous] = read_text("Body")
    assert (anonymous.title, anonymous.source, anonymous.updated_at) == (None, "", None)


def test_lone_surrogates_nulls_and_unknown_kinds() -> None:
    [document] = read_text("a\ud800b\0c")
    assert document.text == "a\ufffdb\ufffdc"
    with pytest.raises(UnknownNameError, match='unknown reader "docs"'):
        list(read_text("x", kind="docs"))


CONTENT = [
    (samples.PDF, "cats.txt", "pdf"),
    (samples.PDF, "", "pdf"),
    (b"\n " + samples.PDF, "download", "pdf"),
    (samples.make_docx(), "cats.zip", "docx"),
    (samples.HTML.encode(), "cats.pdf", "html"),
    (samples.HTML.encode(), "page", "html"),
    (b"<!-- hi -->\n<HTML><p>x", "", "html"),
    (samples.HTML.encode(), "cats.txt", "text"),
    (b"just words", "LICENSE", "text"),
    (b"just words", "file.unknown", "text"),
    ("just words".encode("utf-16-le"), "", "text"),
    (b"x = 1", "SCRIPT.PY", "code"),
]


@pytest.mark.parametrize(("data", "name", "expected"), CONTENT)
def test_format_by_suffix_and_content(data: bytes, name: str, expected: str) -> None:
    assert Formats().name(Source(name=name, data=data)) == expected


@pytest.mark.parametrize("name", ["x.txt", "x", "x.png", "x.md"])
@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0", samples.make_zip({"a": "b" * 50})]
)
def test_binary(name: str, data: bytes) -> None:
    with pytest.raises(UnsupportedFormatError, match="binary"):
        list(read_bytes(data, name=name))


class ShoutingReader:
    """A reader from outside."""

    kind = "shout"
    suffixes = frozenset({".shout", ".txt"})

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        text = source.read(limit=options.max_bytes).decode().upper()
        yield Document(kind=self.kind, source=source.name, text=text)


@pytest.fixture
def shouting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(READERS, "_registered", {"shout": ShoutingReader})


@pytest.mark.usefixtures("shouting")
def test_readers_can_be_added(tmp_path: Path) -> None:
    (tmp_path / "a.shout").write_text("hey", encoding="utf-8")
    (tmp_path / "b.txt").write_text("you", encoding="utf-8")
    results = [result for result in load(tmp_path) if isinstance(result, Document)]
    assert [document.text for document in results] == ["HEY", "YOU"]


class PanickingReader(ShoutingReader):
    """One whose native code panics at some texts."""

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        for document in super().read(source, options=options):
            assert isinstance(document, Document)
            get_sentence_boundaries("en", document.text)
            yield document


def test_a_panic_of_a_reader_is_a_failure_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(READERS, "_registered", {"shout": PanickingReader})
    (tmp_path / "a.txt").write_text(PANICS, encoding="utf-8")
    (tmp_path / "b.txt").write_text("you", encoding="utf-8")
    failure, document = load(tmp_path)
    assert isinstance(failure, ReadFailure)
    assert "the reader failed" in failure.reason
    assert isinstance(document, Document)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.md").write_text("# A\n\ntext", encoding="utf-8")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nothing")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "sub" / "b.txt").write_text("words", encoding="utf-8")
    return tmp_path


def test_failures_come_between_documents(notes: Path) -> None:
    first, failure, last = load(notes)
    assert isinstance(first, Document)
    assert isinstance(failure, ReadFailure)
    assert isinstance(last, Document)
    assert failure.error == "CorruptSourceError"
    assert failure.source.endswith("/bad.pdf")


def test_named_files_are_never_passed_over(notes: Path) -> None:
    assert failure_of(notes / "picture.png").error == "UnsupportedFormatError"


def test_no_file_is_read_twice(notes: Path) -> None:
    results = load([notes / "sub", str(notes), notes / "a.md"], include=["*.txt", "*.md"])
    kinds = [result.kind for result in results if isinstance(result, Document)]
    assert kinds == ["text", "markdown"]


def test_missing_paths_do_not_stop_the_rest(notes: Path) -> None:
    missing, found = load([notes / "gone", notes / "a.md"])
    assert isinstance(missing, ReadFailure)
    assert str(missing).endswith("/gone: no such file or folder (ReadError)")
    assert isinstance(found, Document)


def test_nothing_in_the_folder(notes: Path) -> None:
    assert "no files to read in this folder" in failure_of(notes, include=["*.rtf"]).reason
    assert "1 .png" in failure_of(notes, include=["*.png"]).reason


def test_options_reach_every_file(notes: Path) -> None:
    options = ReadOptions(collection="c", metadata={"team": "blue"})
    found = [item for item in load(notes, options=options) if isinstance(item, Document)]
    assert {(item.collection, item.metadata["team"]) for item in found} == {("c", "blue")}


def test_a_folder_of_pictures_has_no_option_to_check(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    assert failure_of(tmp_path).reason == "no files to read in this folder (1 file skipped: 1 .png)"
    (tmp_path / ".hidden.md").write_text("Cats sleep.")
    assert failure_of(tmp_path).reason.endswith("; check include and exclude, or read everything")


def test_what_to_do_for_skipped_files_is_said_once_for_each_kind(tmp_path: Path) -> None:
    for name in ("a.doc", "b.doc", "c.bin"):
        (tmp_path / name).write_bytes(OLE_MAGIC + bytes(99))
    (tmp_path / "scan.pdf").write_bytes(make_pdf([[]]))
    loading = load(tmp_path)
    list(loading)
    assert sorted(loading.notes) == [
        "1 file skipped: no text layer; read with --ocr auto, which needs tesseract or ocrmypdf",
        "2 files skipped: an old Word file; save it as .docx",
    ]


def test_what_all_rows_of_a_file_lack_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text\none\ntwo\n")
    failure = failure_of(tmp_path, options=ReadOptions(id_from="front-matter:key"))
    assert failure.reason.startswith("no key in its front matter")
