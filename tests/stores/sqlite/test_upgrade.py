"""A base that version 1 made is upgraded when it is opened, and answers like a new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lagotto.stores.registry import create_store
from lagotto.stores.sql.tables import SCHEMA_VERSION
from lagotto.sync_facade import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder

VERSION_1 = (Path(__file__).parent / "v1.sql").read_text(encoding="utf-8")

FTS5 = """
CREATE VIRTUAL TABLE chunk_terms USING fts5(terms, tokenize="ascii tokenchars '_'");
CREATE VIRTUAL TABLE chunk_vocabulary USING fts5vocab(chunk_terms, row);
INSERT INTO chunk_terms(rowid, terms) VALUES
    (1, 'dog dog the water dog find truffl'),
    (2, 'dog train it take a year and much patienc'),
    (3, 'oak truffl grow on the root of oak and hazel');
UPDATE setting SET value = 'fts5' WHERE name = 'text_index';
"""

QUERIES = ("training", "truffles", "dog", "year")


def old_base(path: Path, text_index: str) -> Path:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(VERSION_1 + (FTS5 if text_index == "fts5" else ""))
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    return path


def opened(path: Path, *, text_index: str | None = None) -> KnowledgeBase:
    store = create_store(path, text_index=text_index)
    return KnowledgeBase(store, embedder=HashEmbedder(dimension=8), chunker="heading:24/4")


def answers(base: KnowledgeBase) -> list[tuple[str, int, float]]:
    return [
        (hit.document_id, hit.start, round(hit.score, 4))
        for query in QUERIES
        for hit in base.retrieve(query, mode="keyword")
    ]


def schema(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {name: " ".join(sql.split()) for name, sql in rows}


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_an_old_base_answers_like_a_new_one(tmp_path: Path, text_index: str) -> None:
    old, new = old_base(tmp_path / "old.db", text_index), tmp_path / "new.db"
    with opened(old) as base, opened(new, text_index=text_index) as fresh:
        documents = [base.get(name) for name in ("dogs", "oaks")]
        fresh.add(*(document for document in documents if document))
        assert answers(base) == answers(fresh)
        assert base.info().documents == fresh.info().documents == 2
    assert schema(old) == schema(new)
    with closing(sqlite3.connect(old)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_what_was_stored_is_unchanged(tmp_path: Path) -> None:
    path = old_base(tmp_path / "old.db", "tantivy")
    with closing(sqlite3.connect(path)) as file:
        before = list(file.iterdump())
    with opened(path) as base:
        base.retrieve("truffles")
    with closing(sqlite3.connect(path)) as file:
        assert {_without_expiry(line) for line in before} <= set(file.iterdump())


def _without_expiry(line: str) -> str:
    """A line of a dump as version 5 has it: chunk sets used to have an expiry, always NULL."""
    if line.startswith('INSERT INTO "chunk_set"'):
        return line.removesuffix(",NULL);") + ");"
    return line.replace("\n\texpires_at TEXT,", "")
