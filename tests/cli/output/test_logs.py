"""`--verbose` says what happens, and never what documents say."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lagotto import KnowledgeBase
from lagotto.cli.output import logging_to_stderr
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import run


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
