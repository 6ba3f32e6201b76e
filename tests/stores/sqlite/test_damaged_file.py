"""A damaged file is an error of ours or the right answer, never a traceback."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from lagotto.documents import Document, Heading, Page
from lagotto.errors import LagottoError, StoreDamagedError
from lagotto.stores.sql.tables import (
    AttributeRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    DocumentRow,
    EmbeddingRow,
)
from tests.stores.sqlite.bases import answers, documents, made, opened, run_sql

pytestmark = pytest.mark.slow

PAGE = 8192


class TestDamagedFile:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_a_page_of_garbage(self, path: Path, text_index: str) -> None:
        """Every page in turn: an error of ours, or the right answers, or some of them and a note.

        A document is as it was, or an error.
        """
        made(path, text_index=text_index, count=6)
        long = Document(id="long", text="Word by word. " * 1_500, metadata={"a": "b" * 9_000})
        with opened(path) as base:
            base.add(long)
            base.retrieve("word")
        with opened(path) as base:  # with indexes that have caught up
            right = answers(base)
            stored = [base.get(item.id) for item in (*documents(6), long)]  # with their languages
        given = [item.model_dump(exclude={"language"}) for item in (*documents(6), long)]
        assert [item and item.model_dump(exclude={"language"}) for item in stored] == given
        whole = path.read_bytes()
        garbage = bytes((7 * place + 3) % 251 for place in range(PAGE))
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            path.write_bytes(whole[: page * PAGE] + garbage + whole[(page + 1) * PAGE :])
            try:
                with opened(path) as base:
                    noted = bool(base.retrieve("word number", top_k=100).stats.degraded)
                    assert noted or answers(base) == right
                    errors += noted
                    assert [base.get(item.id) for item in (*documents(6), long)] == stored
            except StoreDamagedError:
                errors += 1
        assert errors > 5

    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_bytes_in_the_middle(self, path: Path, text_index: str) -> None:
        """SQLite has no checksums, so some go unseen; what is noticed is an error of ours."""
        made(path, text_index=text_index, count=6)
        whole = path.read_bytes()
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            end = (page + 1) * PAGE - 50
            path.write_bytes(whole[: end - 300] + b"\x02" * 300 + whole[end:])
            try:
                with opened(path) as base:
                    answers(base)
                    for item in documents(6):
                        base.get(item.id)
                        base.chunks(item.id)
                    base.documents(filters={"version": 1})
                    base.add(*documents(7))
            except LagottoError:
                errors += 1
        assert errors > 2

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_a_file_cut_off(self, path: Path, share: float) -> None:
        made(path, count=20)
        whole = path.read_bytes()
        shutil.rmtree(path.with_name("kb.db.index"))
        path.write_bytes(whole[: int(len(whole) * share)])
        error = pytest.raises(StoreDamagedError, match=r"is damaged.*backup.*\.recover")
        with error as caught, opened(path) as base:
            answers(base)
        # no advice to delete it: the file may be the only copy of the documents
        assert "delete" not in str(caught.value).replace(str(path), "")

    def test_an_emptied_file_does_not_become_a_new_base(self, path: Path) -> None:
        right = made(path)
        whole = path.read_bytes()
        path.write_bytes(b"")
        with pytest.raises(StoreDamagedError, match=r"is empty, but .* has indexes"), opened(path):
            pass
        path.write_bytes(whole)
        with opened(path) as base:
            assert answers(base) == right


HOSTILE = (
    "NULL", "''", "'é'", "'en' || char(27) || '[31m'", "-1", "0", "9223372036854775807", "1.5",
    "x'00fffe'", "CAST(x'eda080' AS TEXT)", "'['", "'{}'", "'[1]'", "'[\"\\ud800\"]'", "'null'",
    "printf('%.20000c', '[')", """'{"pages": [{"start": -5, "end": 9, "number": 0}]}'""",
)  # fmt: skip
"""Values as SQL that no version has stored, of every type."""

OWNERS = {
    DocumentRow: "key = {}",
    AttributeRow: "document_key = {}",
    ChunkSetRow: "document_key = {}",
    ChunkRow: "document_key = {}",
    ChunkTextRow: "chunk_key IN (SELECT key FROM chunk WHERE document_key = {})",
    EmbeddingRow: "chunk_key IN (SELECT key FROM chunk WHERE document_key = {})",
}
"""The tables that hold documents, and the rows of one of them."""

CHANGES = [
    (f'UPDATE {table.__tablename__} SET "{column.name}" = {value}', f" WHERE {owner}")
    for table, owner in OWNERS.items()
    for column in table.__table__.columns
    for value in HOSTILE
]


def structured(name: str) -> Document:
    text = "Seals live in the lake.\n\nTrains leave at noon. Nobody knows why."
    return Document(
        id=name,
        title="Lake",
        language="en",
        text=text,
        metadata={"year": 2000, "tags": ["a"]},
        pages=(Page(start=0, end=20, number=1), Page(start=20, end=len(text), number=2)),
        headings=(Heading(start=0, end=len(text), level=1, title="Seals"),),
    )


class TestHostileValues:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    @pytest.mark.parametrize("indexed", [False, True])
    def test_a_value_costs_its_own_document(
        self, path: Path, text_index: str, indexed: bool
    ) -> None:
        """A document for each column and value: the two others are found as if they were alone."""
        with opened(path, text_index=text_index) as base:
            base.add(structured("first"), *(structured(f"p{n:04}") for n in range(len(CHANGES))))
            base.add(structured("last"))
            base.retrieve("seals")
        with closing(sqlite3.connect(path)) as file:
            keys = dict(file.execute("SELECT id, key FROM document").fetchall())
            changed = 0
            for number, (change, where) in enumerate(CHANGES):
                try:
                    changed += file.execute(change + where.format(keys[f"p{number:04}"])).rowcount
                except sqlite3.Error:  # a constraint of the tables, or a value of no JSON
                    continue
            file.commit()
            assert changed > len(CHANGES)
        if not indexed:
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
        for _ in range(2):  # also after opening it again
            with opened(path) as base:
                for mode in ("hybrid", "semantic", "keyword"):
                    hits = base.retrieve("seals of the lake", mode=mode, top_k=1_900)
                    assert {"first", "last"} <= {hit.document_id for hit in hits}
                    assert any("can't be read" in note for note in hits.degraded)
                assert base.search("trains at noon", top_k=1_000).candidates
                assert base.context("trains at noon", top_k=50).citations
                assert base.retrieve("seals", filters={"year": 2000}, top_k=50)
                assert base.retrieve("seals", diversity={"mmr": 0.5})
                assert base.retrieve("seals", chunking={"strategy": "late"})
                report = base.add(Document(id="new", text="A new seal, the unique4711x."))
                assert not report.failures
                assert base.retrieve("unique4711x")[0].document_id == "new"
                base.remove("new")

    def test_a_document_that_can_not_be_read_is_named(self, path: Path) -> None:
        with opened(path) as base:
            base.add(structured("good"), structured("bad"))
        run_sql(path, "UPDATE document SET metadata = '[' WHERE id = 'bad'")
        with opened(path) as base:
            with pytest.raises(StoreDamagedError, match="the document 'bad' of the collection"):
                base.get("bad")
            base.remove("bad")
            assert [item.id for item in base.documents()] == ["good"]

    @pytest.mark.parametrize(
        "change",
        [
            "DROP TABLE chunk_text",
            "DELETE FROM counter",
            "DELETE FROM history",
            "PRAGMA user_version = -1",
            "ALTER TABLE document RENAME COLUMN text TO another",
            "INSERT INTO removal VALUES (9223372036854775807, -5, 0)",
        ],
    )
    def test_other_tables_are_an_error_of_ours_or_harmless(self, path: Path, change: str) -> None:
        made(path, count=2)
        run_sql(path, change)
        for use in ("retrieve", "search", "add", "get", "remove"):
            with suppress(LagottoError), opened(path) as base:
                getattr(base, use)(structured("new") if use == "add" else "d001")

    @pytest.mark.parametrize(
        "name",
        ["base_id", "model_id", "dimension", "pooling", "chunker_id", "text_index", "generation"],
    )
    def test_settings_are_an_error_of_ours_or_harmless(self, path: Path, name: str) -> None:
        made(path, count=2)
        for value in ("''", "'é'", "-1", "'99999999999999999999'", "'../../x'", "x'ff'"):
            run_sql(path, f"UPDATE setting SET value = {value} WHERE name = '{name}'")
            try:
                with opened(path) as base:
                    base.retrieve("dog")
                    base.add(structured("new"))
                    base.remove("new")
            except LagottoError:
                continue
