"""A base that version 1 made is upgraded when it is opened, and answers like a new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.stores.registry import create_store
from lagotto.stores.sql import SCHEMA_VERSION
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
        after = set(file.iterdump())
    widened = ("CREATE TABLE chunk (", "CREATE TABLE embedding (")
    assert {_as_now(line) for line in before if not line.startswith(widened)} <= after


def _as_now(line: str) -> str:
    """A line of a dump as it is now.

    Version 5 took the expiry of chunk sets, always NULL; version 8 gave chunks three columns, and
    version 9 embeddings one.
    """
    if line.startswith('INSERT INTO "chunk_set"'):
        return line.removesuffix(",NULL);") + ");"
    if line.startswith('INSERT INTO "chunk"'):
        return line.removesuffix(");") + ",NULL,NULL,NULL);"
    if line.startswith('INSERT INTO "embedding"'):
        return line.removesuffix(");") + ",NULL);"
    return line.replace("\n\texpires_at TEXT,", "")


@pytest.fixture(params=range(2, SCHEMA_VERSION))
def version(request: pytest.FixtureRequest) -> int:
    """A version of which there are bases, with their indexes, that its own code wrote."""
    number: int = request.param
    return number


def unpacked(folder: Path, version: int, text_index: str) -> Path:
    with ZipFile(Path(__file__).parent / f"v{version}.zip") as archive:
        archive.extractall(folder)
    path = folder / text_index / "kb.db"
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (version,)
    return path


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_a_base_of_every_version_opens_with_its_indexes(
    tmp_path: Path, version: int, text_index: str
) -> None:
    path, new = unpacked(tmp_path, version, text_index), tmp_path / "new.db"
    embedder = HashEmbedder(dimension=8)
    with KnowledgeBase(path, embedder=embedder) as base, opened(new) as fresh:
        config = base.info()
        assert (config.model_id, config.dimension, config.pooling) == ("hash", 8, "chunk")
        assert (config.chunker_id, config.text_index) == ("heading:24/4", text_index)
        found = [base.get(document.id) for document in base.documents()]
        assert len(found) >= 20
        documents = [document for document in found if document]
        fresh.add(*documents)
        assert hits(base) == hits(fresh)
        assert base.add(*documents).unchanged == len(documents)
        assert version > 8 or created(path) == [None]
        assert not [item for item in base.run(base.base._record.check()) if item.level == "problem"]
        base.rebuild(embedder=HashEmbedder(model_id="other", dimension=16))
        assert base.info().model_id == "other"
        assert None not in created(path)
        assert base.get("dogs") == fresh.get("dogs")
        assert base.retrieve("training", mode="keyword")[0].document_id == "dogs"


def created(path: Path) -> list[str | None]:
    """When vectors were made; those of a former version don't say."""
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT DISTINCT created_at FROM embedding")
        return [value for (value,) in rows]


def hits(base: KnowledgeBase) -> list[set[tuple[str, int]]]:
    """What is found; scores may count chunks that are gone until an index is merged."""
    return [
        {(hit.document_id, hit.start) for hit in base.retrieve(query, top_k=2_000)}
        for query in (*QUERIES, "lake 3", "forest")
    ]
