from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import ConfigError
from lagotto.readers import PageImage, ReadFailure, load
from tests.readers.pdf_maker import make_pdf


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Three pages, of which the second has no text."""
    path = tmp_path / "scan.pdf"
    path.write_bytes(make_pdf([["Cats sleep."], [], ["Dogs run."]]))
    return path


def test_pages_without_text_are_noted(scan: Path) -> None:
    loading = load(scan)
    [document] = loading
    assert isinstance(document, Document)
    [note] = loading.notes
    assert "page 2 has no text layer" in note


def test_a_callable_reads_them(scan: Path) -> None:
    seen: list[PageImage] = []

    def ocr(image: PageImage) -> str:
        seen.append(image)
        return "Birds\r\nsing."

    loading = load(scan, ocr=ocr)
    [document] = loading
    assert isinstance(document, Document)
    page = document.pages[1]
    assert document.text[page.start : page.end] == "Birds\nsing."
    assert loading.notes == ()
    [image] = seen
    assert image.number == 2
    assert image.png.startswith(b"\x89PNG")


def test_an_ocr_that_fails_leaves_the_page_without_text(scan: Path) -> None:
    def ocr(image: PageImage) -> str:
        raise RuntimeError("no idea")

    loading = load(scan, ocr=ocr)
    [document] = loading
    assert isinstance(document, Document)
    assert "page 2 has no text layer" in loading.notes[0]


def test_a_scan_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "all.pdf").write_bytes(make_pdf([[]]))
    (tmp_path / "a.txt").write_text("text")
    loading = load(tmp_path)
    assert len(list(loading)) == 1
    assert loading.skipped.counts == {"no text layer": 1}
    [failure] = load(tmp_path / "all.pdf")
    assert isinstance(failure, ReadFailure)
    [document] = load(tmp_path / "all.pdf", ocr=lambda image: "recognised")
    assert isinstance(document, Document)
    assert document.text == "recognised"


def test_commands_that_are_not_installed(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("auto", "tesseract", "nothing"):
        with pytest.raises(ConfigError, match="install tesseract or ocrmypdf"):
            load(scan, ocr=name)
