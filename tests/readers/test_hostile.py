"""Files that break readers: each gives the right document or error, and no batch stops."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import (
    CorruptSourceError,
    EmptySourceError,
    EncryptedSourceError,
    NoTextLayerError,
    ReadError,
    SourceTooLargeError,
    UnsupportedFormatError,
)
from lagotto.readers import READERS, ReadFailure, ReadOptions, Source, load, read_path
from lagotto.readers.formats import OLE_MAGIC
from lagotto.testing.readers import check_structure
from tests.readers import office_samples, samples
from tests.readers.pdf_maker import make_pdf
from tests.readers.samples import failure_of

pytestmark = pytest.mark.slow

LAUGHS = (
    "<!DOCTYPE x ["
    + "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9)).replace("&e0;", "ha")
    + "]>"
)
SECRET = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
HIDDEN_PACKAGE = OLE_MAGIC + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
PARAGRAPH = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"

FAILING: dict[str, tuple[bytes, type[ReadError]]] = {
    "empty.txt": (b"", EmptySourceError),
    "empty.pdf": (b"", EmptySourceError),
    "blank.md": (b" \r\n\t\n", EmptySourceError),
    "blank.html": (b"<html><body>  </body></html>", EmptySourceError),
    "pages0.pdf": (make_pdf([]), EmptySourceError),
    "scanned.pdf": (make_pdf([[]]), NoTextLayerError),
    "locked.pdf": (samples.encrypted(samples.PDF, user="u", owner="o"), EncryptedSourceError),
    "cut.pdf": (samples.PDF[: len(samples.PDF) // 2], CorruptSourceError),
    "words.pdf": (b"these are just words", CorruptSourceError),
    "cut.docx": (samples.make_docx()[:5000], CorruptSourceError),
    "zip.docx": (samples.make_zip({"a.txt": "x"}), CorruptSourceError),
    "locked.docx": (HIDDEN_PACKAGE, EncryptedSourceError),
    "empty.eml": (b"\n", EmptySourceError),
    "cut.pptx": (office_samples.make_pptx()[:9000], CorruptSourceError),
    "cut.xlsx": (office_samples.make_xlsx()[:3000], CorruptSourceError),
    "cut.odt": (office_samples.make_odt()[:500], CorruptSourceError),
    "cut.epub": (office_samples.make_epub()[:500], CorruptSourceError),
    "cut.ipynb": (json.dumps(samples.NOTEBOOK).encode()[:90], CorruptSourceError),
    "words.mbox": (b"these are just words", CorruptSourceError),
    "words.vtt": (b"these are just words", CorruptSourceError),
    "empty.rst": (b"\n\n", EmptySourceError),
    "picture.rst": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), UnsupportedFormatError),
    "numbers.srt": (b"1\n2\n3\n", CorruptSourceError),
    "silent.srt": (b"00:00:01,000 --> 00:00:02,000\n" * 1000, EmptySourceError),
    "spaced.srt": (b"00:00:01,000" + b" " * 50_000 + b"--> 00:00:02,000\nx", CorruptSourceError),
    "bare.vtt": (b"WEBVTT", EmptySourceError),
    "locked.xlsx": (HIDDEN_PACKAGE, EncryptedSourceError),
    "laughs.odt": (office_samples.make_odt(LAUGHS + "<a>&e9;</a>"), CorruptSourceError),
    "secret.odt": (
        office_samples.make_odt(f"{SECRET}<a><body><text><p>&secret;</p></text></body></a>"),
        EmptySourceError,
    ),
    "old.docx": (OLE_MAGIC + bytes(600), UnsupportedFormatError),
    "picture.txt": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), UnsupportedFormatError),
    "laughs.docx": (
        samples.docx_body(PARAGRAPH.format("&e9;"), doctype=LAUGHS),
        CorruptSourceError,
    ),
    "secret.docx": (
        samples.docx_body(PARAGRAPH.format("&secret;"), doctype=SECRET),
        EmptySourceError,
    ),
}

READABLE: dict[str, tuple[bytes, str]] = {
    "latin.txt": ("Die Straße über die Brücke".encode("latin-1"), "Die Straße über die Brücke"),
    "utf16.txt": ("Straße".encode("utf-16"), "Straße"),
    "utf16le.txt": ("plain words".encode("utf-16-le"), "plain words"),
    "nulls.txt": (
        b"two\0nulls\0 in a text that is long enough",
        "two\ufffdnulls\ufffd in a text that is long enough",
    ),
    "include.rst": (
        b".. include:: /etc/passwd\n\n.. |a| replace:: |a| |a|\n\n|a| word",
        ".. include:: /etc/passwd\n\n.. |a| replace:: |a| |a|\n\n|a| word",
    ),
    "backwards.srt": (
        b"1\n99:59:59,999 --> 00:00:00,000\nlast\n\n2\n00:00:01,000 --> 00:00:02,000\nfirst\n",
        "last\n\nfirst",
    ),
    "returns.srt": (
        b"1\r00:00:01,000 --> 00:00:02,000\rold\r\r2\r00:00:02,500 --> 00:00:03,000\rlines\r",
        "old\nlines",
    ),
    "wide.srt": ("1\r\n00:00:01,000 --> 00:00:02,000\r\nStraße\r\n".encode("utf-16"), "Straße"),
    "tags.vtt": (b"WEBVTT\n\n00:01.000 --> 00:02.000\n" + b"<i>" * 50_000 + b"text", "text"),
    "unclosed.html": (b"<html><p>one<p>two<b>three", "one\n\ntwothree"),
    "laughs.html": (f"{LAUGHS}<p>ha &e9; ha</p>".encode(), "ha &e9; ha"),
    "laughs.epub": (
        office_samples.make_epub((f"{LAUGHS}<p>ha &amp;e9; ha</p>",)),
        "ha &e9; ha",
    ),
    "lies.txt": (samples.PDF, "Cats\nCats sleep a lot.\n\nFacts\nTom sleeps 16 hours."),
}


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", FAILING)
def test_right_error(tmp_path: Path, name: str) -> None:
    data, expected = FAILING[name]
    with pytest.raises(ReadError) as caught:
        list(read_path(put(tmp_path, name, data)))
    assert type(caught.value) is expected
    assert name in str(caught.value)


@pytest.mark.parametrize("name", READABLE)
def test_right_text(tmp_path: Path, name: str) -> None:
    data, expected = READABLE[name]
    [document] = read_path(put(tmp_path, name, data))
    if name.startswith("laughs"):
        assert document.text.endswith(expected)
        assert len(document.text) < 1000
    else:
        assert document.text == expected


def test_a_batch_goes_on_and_reports(tmp_path: Path) -> None:
    for name, (data, _) in {**FAILING, **READABLE}.items():
        put(tmp_path, name, data)
    loading = load(tmp_path)
    results = list(loading)
    failures = [result for result in results if isinstance(result, ReadFailure)]
    read = {Path(result.source).name for result in results if result not in failures}
    assert read == set(READABLE)
    failed = {Path(failure.source).name: failure.error for failure in failures}
    expected = {
        name: error.__name__
        for name, (_, error) in FAILING.items()
        if not issubclass(error, EmptySourceError) and not name.startswith("picture")
    }
    assert failed == expected
    skipped = {Path(file.source).name for file in loading.skipped.files}
    assert skipped == FAILING.keys() - expected.keys()
    assert all(failure.source in str(failure) for failure in failures)


@pytest.mark.parametrize(
    ("suffix", "part"),
    [
        ("docx", "word/document.xml"),
        ("pptx", "ppt/presentation.xml"),
        ("xlsx", "xl/workbook.xml"),
        ("odt", "content.xml"),
        ("epub", "META-INF/container.xml"),
    ],
)
def test_zip_bomb(tmp_path: Path, suffix: str, part: str) -> None:
    path = tmp_path / f"bomb.{suffix}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(part, bytes(60_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(SourceTooLargeError, match="60,000,000 bytes"):
        list(read_path(path))


def test_zip_directory_that_lies(tmp_path: Path) -> None:
    data = samples.docx_body(PARAGRAPH.format("x" * 100_000))
    with zipfile.ZipFile(put(tmp_path, "a.docx", data)) as archive:
        size = archive.getinfo("word/document.xml").file_size
    lying = data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert lying != data
    with pytest.raises(CorruptSourceError):
        list(read_path(put(tmp_path, "b.docx", lying)))


def test_one_line_of_fifty_megabytes(tmp_path: Path) -> None:
    path = put(tmp_path, "long.txt", b"word " * 10_000_000)
    [document] = read_path(path)
    assert len(document.text) == 50_000_000


def test_larger_than_the_limit(tmp_path: Path) -> None:
    path = put(tmp_path, "long.txt", b"x" * 1001)
    with pytest.raises(SourceTooLargeError, match="larger than 1,000 bytes"):
        list(read_path(path, options=ReadOptions(max_bytes=1000)))


@pytest.mark.parametrize("tag", ["div", "ul><li", "table><tr><td", "span", "blockquote", "b"])
def test_deeply_nested_html(tmp_path: Path, tag: str) -> None:
    html = f"<p>before</p>{f'<{tag}>' * 100_000}deep<script>no()</script><p>down"
    [document] = read_path(put(tmp_path, "deep.html", html.encode()))
    words = document.text.replace("-", " ").replace("|", " ").split()
    assert words == ["before", "deep", "down"]


CUE = b"1\n00:00:01,000 --> 00:00:02,000\n"
ENDLESS = {
    "underlines.rst": b"=\n" * 60_000,
    "overlines.rst": b"=====\nTitle\n=====\n\ntext\n\n" * 6_000,
    "long.rst": b"=" * 1_000_000 + b"\nTitle\n" + b"=" * 1_000_000 + b"\n\ntext",
    "stairs.rst": b"".join(b" " * depth + b"- item\n" for depth in range(2_000)),
    "literal.rst": b"Text::\n\n  never ends\n" * 20_000,
    "ragged.rst": b"+---+---+\n| a | b \n+--\n| c\n" * 5_000,
    "grid.rst": b"+" + b"-+" * 200_000 + b"\n",
    "colons.rst": b":" * 500_000,
    "ticks.rst": b"`" * 300_000 + b" text",
    "marks.rst": b"".join(
        b"Title %d\n%s\n\n" % (number, bytes([33 + number % 15]) * 12) for number in range(8_000)
    ),
    "open.srt": CUE + b"<" * 300_000 + b"text",
    "braces.srt": CUE + b"{\\an8" * 100_000 + b"text",
    "voices.vtt": b"WEBVTT\n\n" + CUE + b"<v " * 100_000 + b"text",
    "entities.vtt": b"WEBVTT\n\n" + CUE + b"&amp;" * 100_000 + b" text",
    "cues.srt": (CUE + b"word\n\n") * 20_000,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_repetitions_take_linear_time_and_keep_the_structure(tmp_path: Path, name: str) -> None:
    """A quadratic reader would take minutes, and the limits of the child process end it."""
    [document] = read_path(put(tmp_path, name, ENDLESS[name]))
    check_structure(document)


def test_no_permission(tmp_path: Path) -> None:
    path = put(tmp_path, "secret.txt", b"text")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ReadError, match="permission denied"):
        list(read_path(path))


def test_file_that_vanishes(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        put(tmp_path, name, b"text")

    def vanishing() -> Iterator[Document | ReadFailure]:
        for result in load(tmp_path):
            (tmp_path / "b.txt").unlink(missing_ok=True)
            yield result

    first, failure, last = vanishing()
    assert isinstance(first, Document)
    assert isinstance(failure, ReadFailure)
    assert failure.source.endswith("b.txt")
    assert isinstance(last, Document)


def test_links_in_a_circle(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", b"text")
    (tmp_path / "circle").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to("self")
    [document] = load(tmp_path)
    assert isinstance(document, Document)
    failure_of(tmp_path / "self")


def test_unknown_suffix_with_comments_is_sniffed_in_time(tmp_path: Path) -> None:
    (document,) = read_path(put(tmp_path, "comments.unknown", b"<!---->" * 500))
    assert document.kind == "text"


def test_front_matter_with_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    front = f"---\na: {':'.join(['59'] * 3000)}\n---\n# T\n\nText\n"
    (document,) = read_path(put(tmp_path, "a.md", front.encode()))
    assert str(document.metadata["a"]).startswith("0x")


def test_metadata_nested_too_deep_fails_alone(tmp_path: Path) -> None:
    deep = '{"a":' * 260 + "1" + "}" * 260
    (tmp_path / "a.jsonl").write_text(f'{{"text": "one", "m": {deep}}}\n{{"text": "two"}}\n')
    first, second = load(tmp_path)
    assert isinstance(first, ReadFailure)
    assert "nested more than 64 levels" in first.reason
    assert isinstance(second, Document)


class BrokenReader:
    """A reader of somebody else's making."""

    kind = "broken"
    suffixes = frozenset({".broken"})

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        raise RuntimeError("no idea")
        yield


def test_any_exception_of_a_reader_is_a_failure_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS._registered, "broken", BrokenReader)
    (tmp_path / "a.broken").write_text("x")
    (tmp_path / "b.txt").write_text("text")
    failure, document = load(tmp_path)
    assert isinstance(failure, ReadFailure)
    assert failure.source.endswith("a.broken")
    assert "RuntimeError: no idea" in failure.reason
    assert isinstance(document, Document)
