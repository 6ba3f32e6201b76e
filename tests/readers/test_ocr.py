from __future__ import annotations

import os
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import ConfigError
from lagotto.readers import Ocr, PageImage, load
from tests.readers.pdf_maker import make_pdf
from tests.readers.samples import failure_of


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Three pages, of which the second has no text."""
    path = tmp_path / "scan.pdf"
    path.write_bytes(make_pdf([["Cats sleep."], [], ["Dogs run."]]))
    return path


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


def failing(image: PageImage) -> str:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("ocr", "why"),
    [(None, "which needs tesseract or ocrmypdf"), (failing, "OCR found no text either")],
)
def test_pages_that_stay_without_text_are_noted(scan: Path, ocr: Ocr | None, why: str) -> None:
    loading = load(scan, ocr=ocr)
    [document] = loading
    assert isinstance(document, Document)
    [note] = loading.notes
    assert "page 2 has no text layer" in note
    assert note.endswith(why)


def test_a_scan_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "all.pdf").write_bytes(make_pdf([[]]))
    (tmp_path / "a.txt").write_text("text")
    loading = load(tmp_path)
    assert len(list(loading)) == 1
    assert loading.skipped.counts == {"no text layer": 1}
    failure_of(tmp_path / "all.pdf")
    [document] = load(tmp_path / "all.pdf", ocr=lambda image: "recognised")
    assert isinstance(document, Document)
    assert document.text == "recognised"


def test_commands_that_are_not_installed(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("auto", "tesseract", "ocrmypdf:deu"):
        with pytest.raises(ConfigError, match="install tesseract or ocrmypdf"):
            load(scan, ocr=name)
    with pytest.raises(ConfigError, match="unknown OCR 'teseract'; did you mean tesseract"):
        load(scan, ocr="teseract:deu")


FAKE = """#!/bin/sh
for last; do :; done
case "$0" in
*tesseract) out="$2.txt" ;;
*) while [ "$1" != --sidecar ]; do shift; done; out="$2" ;;
esac
case "$*" in *broken*) echo "no such language" >&2; exit 7 ;; esac
printf 'recognised %s\\f' "$*" > "$out"
"""
"""Stands for both commands: writes its arguments where they write the text."""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both commands, first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("tesseract", "ocrmypdf"):
        file = folder / name
        file.write_text(FAKE)
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    "name", ["tesseract", "ocrmypdf", "auto", "tesseract:deu+eng", "ocrmypdf:deu+eng"]
)
@pytest.mark.usefixtures("commands")
def test_a_command_reads_them_in_languages(name: str, scan: Path) -> None:
    loading = load(scan, ocr=name)
    [document] = loading
    assert isinstance(document, Document)
    assert loading.notes == ()
    page = document.pages[1]
    said = document.text[page.start : page.end]
    assert said.startswith("recognised")
    assert "page.png" in said
    assert "\f" not in said
    assert ("-l deu+eng" in said) == (":" in name)


def test_a_command_that_fails_says_why(
    scan: Path, commands: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loading = load(scan, ocr="tesseract:broken")
    assert len(list(loading)) == 1
    assert "page 2 has no text layer" in loading.notes[0]
    assert loading.notes[0].endswith("; OCR found no text either")
    assert "exit code 7: no such language" in caplog.text
