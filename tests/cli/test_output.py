"""Nothing that a document says is obeyed by the terminal that shows it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from lagotto import KnowledgeBase
from lagotto.cli.output import document_name, logging_to_stderr, one_line, print_json, printable
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import run

HOSTILE = "a\x1b[31mred\x9b31m\u202egnp.exe\u2066x\u200f"


def test_control_characters_are_replaced() -> None:
    assert printable(HOSTILE) == "a\ufffd[31mred\ufffd31m\ufffdgnp.exe\ufffdx\ufffd"
    assert one_line("two\nlines\t\x00") == "two lines \ufffd"


def test_json_has_them_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": HOSTILE, "plain": "naïve 東京"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"text": HOSTILE, "plain": "naïve 東京"}
    assert printable(printed) == printed
    assert "東京" in printed


def test_the_name_of_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path from here before a short id; an id that somebody chose stays whole."""
    monkeypatch.chdir(tmp_path)
    hashed = "14258c050ef1ee7786d4b384592a223c"
    below = (tmp_path / "notes" / "a.md").as_posix()
    assert document_name(below, hashed) == "notes/a.md  14258c05"
    assert document_name("/elsewhere/a.md", "chosen") == "/elsewhere/a.md  chosen"
    assert document_name("", hashed) == "14258c05"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("Oaks grow beside the pond.")
    return path


@pytest.mark.slow
def test_what_happens_is_said_on_stderr(note: Path, tmp_path: Path) -> None:
    base = tmp_path / "kb.db"
    assert "lagotto.base.ingest" not in run("--kb", base, "add", note).err
    added = run("--kb", tmp_path / "other.db", "-v", "add", note)
    assert "lagotto.base.ingest: adding documents to" in added.err
    assert "lagotto.base.ingest: 1 added" in added.err
    assert added.out.startswith("1 added")
    found = run("--kb", base, "-vv", "retrieve", "oaks")
    assert "hybrid search: 1 hits" in found.err
    assert "milliseconds by stage" in found.err
    assert "milliseconds by stage" not in run("--kb", base, "-v", "retrieve", "oaks").err


def test_no_text_of_documents_and_queries_is_logged_at_info(
    note: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "lagotto"),
        KnowledgeBase(":memory:", embedder=HashEmbedder()) as base,
    ):
        base.add(note)
        base.retrieve("oaks by the pond")
    said = caplog.text.lower()
    assert "1 added" in said
    assert "hybrid search" in said
    assert "oak" not in said
    assert "pond" not in said


@pytest.mark.parametrize(
    ("verbose", "level"), [(0, "WARNING"), (1, "INFO"), (2, "DEBUG"), (7, "DEBUG")]
)
def test_levels(verbose: int, level: str) -> None:
    package = logging.getLogger("lagotto")
    before = (package.level, list(package.handlers))
    with logging_to_stderr(verbose):
        assert logging.getLevelName(package.getEffectiveLevel()) == level
    assert (package.level, package.handlers) == before


@pytest.mark.slow
def test_verbose_is_the_same_before_and_after_the_command(note: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    before = run("--kb", tmp_path / "a.db", "-v", "add", tmp_path)
    after = run("--kb", tmp_path / "b.db", "add", tmp_path, "--verbose")
    for done in (before, after):
        assert done.err.count("lagotto.base.ingest: adding documents to") == 1
        assert f"skipped: {tmp_path}/picture.png: unsupported" in done.err
    assert "milliseconds by stage" in run("--kb", tmp_path / "a.db", "retrieve", "oaks", "-vv").err
    assert run("presets", "-v").code == 0
