from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.readers import LoadReport, ReadFailure, ReadOptions, load


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
    [failure] = load(notes / "picture.png")
    assert isinstance(failure, ReadFailure)
    assert failure.error == "UnsupportedFormatError"


def test_no_file_is_read_twice(notes: Path) -> None:
    results = load([notes / "sub", str(notes), notes / "a.md"], include=["*.txt", "*.md"])
    kinds = [result.kind for result in results if isinstance(result, Document)]
    assert kinds == ["text", "markdown"]


def test_missing_paths_do_not_stop_the_rest(notes: Path) -> None:
    missing, found = load([notes / "gone", notes / "a.md"])
    assert isinstance(missing, ReadFailure)
    assert missing.reason == "there is no such file or folder"
    assert isinstance(found, Document)


def test_nothing_in_the_folder(notes: Path) -> None:
    [failure] = load(notes, include=["*.rtf"])
    assert isinstance(failure, ReadFailure)
    assert "no file in this folder was taken" in failure.reason
    [failure] = load(notes, include=["*.png"])
    assert isinstance(failure, ReadFailure)
    assert failure.error == "UnsupportedFormatError"


def test_options_reach_every_file(notes: Path) -> None:
    options = ReadOptions(collection="c", metadata={"team": "blue"})
    found = [item for item in load(notes, options=options) if isinstance(item, Document)]
    assert {(item.collection, item.metadata["team"]) for item in found} == {("c", "blue")}


def test_report(notes: Path) -> None:
    report = LoadReport()
    documents = list(report.documents(load([notes, notes / "gone"])))
    assert len(documents) == 2
    lines = str(report).splitlines()
    assert lines[:2] == ["2 documents (1 markdown, 1 text)", "2 failed:"]
    assert lines[2].endswith(
        "/bad.pdf: this PDF is damaged, cut off, or no PDF at all (CorruptSourceError)"
    )
    assert lines[3].endswith("/gone: there is no such file or folder (ReadError)")


def test_report_of_nothing_and_of_too_much() -> None:
    assert str(LoadReport()) == "no documents"
    report = LoadReport()
    failures = [ReadFailure(source=str(n), reason="r", error="E") for n in range(30)]
    assert list(report.documents(failures)) == []
    assert str(report).endswith("\n  19: r (E)\n  and 10 more")
