"""Small bases to break, and what they answer."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.stores.registry import create_store
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder

WORDS = ("water", "dog", "truffle", "oak", "root", "smell", "marsh", "lake")

Answers = list[tuple[str, int, float]]


def document(number: int, *, version: int = 1) -> Document:
    """A document with a word of its own."""
    name = WORDS[number % len(WORDS)]
    text = f"Only unique{number}x stands here, version{version}. " + f"The {name} again. " * 30
    return Document(id=f"d{number:03}", title=name, text=text, metadata={"version": version})


def documents(count: int = 20) -> list[Document]:
    return [document(number) for number in range(count)]


def opened(path: Path, *, text_index: str | None = None) -> KnowledgeBase:
    """A base with an embedder that needs no model."""
    return KnowledgeBase(
        create_store(path, text_index=text_index),
        embedder=HashEmbedder(),
        chunker="recursive:24/4",
    )


@asynccontextmanager
async def sqlite_store(path: Path | None = None, **options: Any) -> AsyncIterator[SqliteStore]:
    """A store in a file, of its own unless it is given."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(path or Path(folder) / "kb.db", **options)
        await store.open()
        try:
            yield store
        finally:
            await store.close()


def made(path: Path, *, text_index: str = "tantivy", count: int = 20) -> Answers:
    """Make a base with documents in it; what it answers."""
    with opened(path, text_index=text_index) as base:
        base.add(*documents(count))
        return answers(base)


def answers(base: KnowledgeBase) -> Answers:
    """What a few searches find, with scores."""
    found: Answers = []
    for query in ("unique3x", "the marsh and the truffle", "unique11x lake", "version1"):
        for mode in ("hybrid", "keyword", "semantic"):
            hits = base.retrieve(query, mode=mode, top_k=15)
            found += [(hit.document_id, hit.start, round(hit.score, 4)) for hit in hits]
    return found


def findings(path: Path) -> str:
    """What a check of a base says."""

    async def check() -> str:
        async with sqlite_store(path) as store:
            return "\n".join(item.what for item in await store.check())

    return asyncio.run(check())


def run_sql(path: Path, *statements: str) -> None:
    """Change the file behind the base's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def fetch(path: Path, question: str) -> list[tuple[Any, ...]]:
    """Read the file behind the base's back."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()
