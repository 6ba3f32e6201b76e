"""A base that a failed command has created is removed again; nothing else ever is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.stores.sqlite.database import discard_if_empty
from lagotto.testing.hash_embedder import HashEmbedder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with KnowledgeBase(path, embedder=HashEmbedder()):
        pass
    return path


def test_a_new_base_goes_with_its_files(base: Path) -> None:
    assert discard_if_empty(base)
    assert not list(base.parent.iterdir())


@pytest.mark.parametrize("removed", [False, True], ids=["with documents", "all removed"])
def test_a_base_that_had_documents_stays(base: Path, removed: bool) -> None:
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        assert not discard_if_empty(base)  # somebody has it open
        kb.add(Document(text="Oaks are old."))
        assert kb.info().documents == 1
        if removed:
            kb.remove(filters={})
    assert not discard_if_empty(base)
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        assert kb.info().documents == (0 if removed else 1)


def test_files_of_others_stay(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE document (id)")
    text = tmp_path / "notes.txt"
    text.write_text("not a base")
    assert not discard_if_empty(other)
    assert not discard_if_empty(text)
    assert other.exists()
    assert text.read_text() == "not a base"
