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


def test_a_base_with_documents_stays(base: Path) -> None:
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        kb.add(Document(text="Oaks are old."))
    assert not discard_if_empty(base)
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        assert kb.info().documents == 1


def test_a_base_whose_documents_were_removed_stays(base: Path) -> None:
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        kb.add(Document(text="Oaks are old."))
        kb.remove(filters={})
    assert not discard_if_empty(base)
    assert base.exists()


def test_a_base_that_somebody_has_open_stays(base: Path) -> None:
    with KnowledgeBase(base, embedder=HashEmbedder()) as kb:
        kb.info()
        assert not discard_if_empty(base)
        kb.add(Document(text="Oaks are old."))
        assert kb.info().documents == 1
    assert base.exists()


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
