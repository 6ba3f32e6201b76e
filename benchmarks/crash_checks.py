"""What is left of a base after a crash, compared with what should be."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from lagotto.documents import Document
from lagotto.filters import And
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.stores.base import Store
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.postgres import PostgresServer

CHUNKER = "recursive:12/0"
SEARCHED = 12

State = dict[str, str | None]
"""Content hash of each document, None for one that is gone."""

_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid != pg_backend_pid()"
)


@dataclass(slots=True)
class Outcome:
    """What a campaign found."""

    kills: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    inconsistent: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a base is: a file with a kind of text index, or a server."""

    location: str
    text_index: str = ""
    server: PostgresServer | None = None

    def exists(self) -> bool:
        """Whether there can be a base."""
        return self.server is not None or Path(self.location).exists()

    def store(self) -> Store:
        """The base's store, closed."""
        return create_store(self.location, text_index=self.text_index or None)

    def base(self) -> AsyncKnowledgeBase:
        """The base, closed."""
        return AsyncKnowledgeBase(self.store(), embedder=HashEmbedder(), chunker=CHUNKER)

    def settle(self) -> None:
        """Wait until the server has ended what a killed client has sent."""
        if self.server:
            with psycopg.connect(self.location, autocommit=True) as connection:
                while connection.execute(_OTHERS).fetchone() != (0,):
                    time.sleep(0.01)


def make_document(name: str, text: str) -> Document:
    """A document that can be found by its name."""
    return Document(id=name, title=name, text=text, metadata={"name": name})


def replay(lines: Sequence[str], stored: State) -> State:
    """Bring `stored` up to what was acknowledged; what was merely announced comes back."""
    pending: State = {}
    for line in lines:
        verb, _, said = line.partition(" ")
        if verb not in ("will", "did") or not said.endswith("}"):
            continue
        change = {name: _hash(name, text) for name, text in json.loads(said).items()}
        if verb == "did":
            stored |= change
            pending = {}
        else:
            pending = change
    return pending


async def check(
    place: Place, stored: State, pending: State, chance: random.Random, outcome: Outcome
) -> State:
    """Compare the base with what it should hold; what it does hold."""
    place.settle()
    if not place.server:
        outcome.inconsistent += check_file(Path(place.location))
    async with place.base() as base:
        found: State = dict.fromkeys([*stored, *pending])
        for name in [outline.id for outline in await base.documents()]:
            document = await base.get(name)
            found[name] = document.content_hash if document else None
            if document != make_document(name, document.text if document else ""):
                outcome.inconsistent.append(f"{name} has changed")
        for name, expected in stored.items():
            if found[name] != expected and not (name in pending and found[name] == pending[name]):
                outcome.lost.append(f"{name}: {found[name]} instead of {expected}")
        if found.keys() != {*stored, *pending}:
            outcome.inconsistent.append("there are documents that nobody has added")
        living = [name for name, content in found.items() if content]
        outcome.inconsistent += await check_search(base, living, chance)
    outcome.inconsistent += await check_store(place.store())
    return found


def check_file(file: Path) -> list[str]:
    """Whatever SQLite or our own rules find wrong with the tables."""
    questions = {
        "integrity": "PRAGMA integrity_check",
        "foreign keys": "PRAGMA foreign_key_check",
        "chunks without vector": "SELECT key FROM chunk WHERE level != 'parent' AND key NOT IN "
        "(SELECT chunk_key FROM embedding)",
        "documents without chunks": "SELECT id FROM document WHERE key NOT IN "
        "(SELECT document_key FROM chunk)",
        "documents without attributes": "SELECT id FROM document WHERE key NOT IN "
        "(SELECT document_key FROM attribute)",
    }
    with closing(sqlite3.connect(file)) as connection:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            return []
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'chunk_terms'").fetchone():
            questions |= {
                "fts5": "SELECT key FROM chunk EXCEPT SELECT rowid FROM chunk_terms",
                "fts5 too many": "SELECT rowid FROM chunk_terms EXCEPT SELECT key FROM chunk",
            }
        answers = {name: connection.execute(sql).fetchall() for name, sql in questions.items()}
    return [f"{name}: {rows}" for name, rows in answers.items() if rows not in ([], [("ok",)])]


async def check_search(
    base: AsyncKnowledgeBase, living: Sequence[str], chance: random.Random
) -> list[str]:
    """Documents that are there but can't be found by their own word."""
    problems = []
    for name in chance.sample(list(living), min(SEARCHED, len(living))):
        hits = await base.retrieve(name, mode="keyword", top_k=50, fuzzy={"mode": "off"})
        if {hit.document_id for hit in hits} != {name}:
            problems.append(f"{name}: a keyword search gives {[hit.document_id for hit in hits]}")
    return problems


async def check_store(store: Store) -> list[str]:
    """Whatever the store itself finds wrong, and chunks that a search for all does not give."""
    await store.open()
    try:
        problems = [found.what for found in await store.check() if found.level == "problem"]
        chunks = (await store.info()).chunks
        embedder = HashEmbedder(dimension=(await store.config()).dimension or 1)
        (query,) = await embedder.embed(["anything"], role="query")
        async with store.view(And()) as view:
            passages = await view.passages((await view.semantic(query, k=chunks + 1)).keys)
        if len({passage.chunk.id for passage in passages}) != chunks:
            problems.append(f"a semantic search gives {len(passages)} of {chunks} chunks")
        return problems
    finally:
        await store.close()


def _hash(name: str, text: str | None) -> str | None:
    return make_document(name, text).content_hash if text else None
