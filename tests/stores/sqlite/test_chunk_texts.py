"""Texts of chunks are stored beside them: reading them takes time linear in a document's length."""

from __future__ import annotations

import sqlite3
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.testing.former_versions import undo
from tests.child_process import child, said
from tests.stores.sqlite.bases import answers, made, opened, run_sql

TO_VERSION_6 = undo(6, "sqlite")

MIGRATION = """
import sys
from lagotto.stores.sql.migrations import v0007
from tests.stores.sqlite.bases import opened

documents = v0007._documents
def slowly(connection):
    for number, document in enumerate(documents(connection)):
        yield document
        if number == 10:
            print("half of it", flush=True)
            sys.stdin.readline()
v0007._documents = slowly
with opened(sys.argv[1]):
    print("opened", flush=True)
"""

COPIES = """
WITH RECURSIVE copy(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copy WHERE number < 40)
"""


def texts(path: Path) -> list[tuple[str, str]]:
    """The text of each chunk as it is stored, and as its document has it."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute(
            'SELECT chunk_text.text, substr(document.text, start + 1, "end" - start) FROM chunk '
            "JOIN document ON document.key = document_key "
            "LEFT JOIN chunk_text ON chunk_key = chunk.key"
        ).fetchall()


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        found: int = file.execute("PRAGMA user_version").fetchone()[0]
    return found


def prose(characters: int) -> str:
    sentences = (f"The dog number {n} smells the root of an old oak. " for n in range(characters))
    text = ""
    for sentence in sentences:
        text += sentence
        if len(text) >= characters:
            break
    return text


def cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_texts_are_those_of_the_documents(tmp_path: Path, text_index: str) -> None:
    path = tmp_path / "kb.db"
    with opened(path, text_index=text_index) as base:
        base.add(*(Document(id=str(n), text=f"Zwölf Wörter, {n}-mal. 🐕 " * 20) for n in range(5)))
        base.add(Document(id="3", text="Nothing else."))
        base.remove("4")
        rows = texts(path)
        assert len(rows) > 10
        assert all(stored == cut for stored, cut in rows)
        base.rebuild(chunker="recursive:12/2")
        more = texts(path)
        assert len(more) > len(rows)
        assert all(stored == cut for stored, cut in more)
        base.remove(*(item.id for item in base.documents()))
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM chunk_text").fetchone() == (0,)


def test_a_text_that_is_lost_is_cut_out_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    expected = made(path)
    run_sql(path, "DELETE FROM chunk_text")
    with opened(path) as base:
        assert answers(base) == expected


def test_time_is_linear_in_the_length_of_a_document(tmp_path: Path) -> None:
    def seconds(characters: int) -> float:
        with opened(tmp_path / f"{characters}.db") as base:
            base.add(Document(id="a", text=prose(characters)))
            return min(cpu_seconds(lambda: base.chunks("a")) for _ in range(5))

    assert seconds(400_000) < 10 * seconds(100_000)  # 4 times as long; its square is 16 times


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_a_killed_migration_leaves_the_former_version(tmp_path: Path, text_index: str) -> None:
    path = tmp_path / "kb.db"
    expected = made(path, text_index=text_index)
    run_sql(path, *TO_VERSION_6)
    with child(MIGRATION, path) as process:
        assert said(process) == "half of it"
        process.kill()
    assert version(path) == 6
    with opened(path) as base:
        assert answers(base) == expected
    assert version(path) == SCHEMA_VERSION
    rows = texts(path)
    assert len(rows) > 100
    assert all(stored == cut for stored, cut in rows)


def test_a_migration_takes_the_memory_of_one_document(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with opened(path) as base:
        base.add(Document(id="0", text=prose(50_000)))
    _multiply(path)
    run_sql(path, *TO_VERSION_6)
    tracemalloc.start()
    with opened(path):
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with closing(sqlite3.connect(path)) as file:
        count, size = file.execute("SELECT count(*), sum(length(text)) FROM chunk_text").fetchone()
    assert count > 10_000
    assert peak < size / 2


def _multiply(path: Path) -> None:
    """40 copies of the only document, with their chunks."""
    with closing(sqlite3.connect(path)) as file, file:
        for table, changed in (
            ("document", {"key": "key + number * 1000000", "id": "number"}),
            ("chunk_set", {"key": "key + number * 1000000"}),
            ("chunk", {"key": "key + number * 1000000"}),
        ):
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            owners = ("document_key", "set_key")
            changed |= {name: f"{name} + number * 1000000" for name in owners if name in columns}
            names = ", ".join(f'"{name}"' for name in columns)
            values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
            file.execute(
                f"INSERT INTO {table} ({names}) {COPIES} SELECT {values} FROM {table}, copy"
            )
