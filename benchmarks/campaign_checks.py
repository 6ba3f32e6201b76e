"""What is left of a base, compared with what was acknowledged and with a base in memory."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from campaign_site import CHOICES, FILES, Name, Site, State, Version, is_version, mark_of
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import LagottoError
from lagotto.filters import And
from lagotto.stores.base import Store
from lagotto.stores.sqlite.database import SqliteConnection
from lagotto.stores.sqlite.fts5 import fts5_generations

NEAREST = 100
TOLERANCE = 1e-4
"""Between two cosines of the same vectors; stores sum in another order."""
COMMON = ("truffle", "winter morning", "curly coat of a dog")


@dataclass(slots=True)
class Findings:
    """What did not hold: acknowledged documents lost, others that should not be, wrong answers."""

    lost: list[str] = field(default_factory=list)
    ghosts: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        """Everything that was found."""
        return [*self.lost, *self.ghosts, *self.wrong]

    def labelled(self, label: str) -> Findings:
        """The same, with a label before each."""
        parts = (self.lost, self.ghosts, self.wrong)
        return Findings(*([f"{label}: {one}" for one in part] for part in parts))

    def extend(self, other: Findings) -> None:
        """Add what another check found."""
        self.lost += other.lost
        self.ghosts += other.ghosts
        self.wrong += other.wrong


class Reference:
    """A base in memory with the documents that a base on disk has: what it should answer."""

    def __init__(self) -> None:
        self._base: AsyncKnowledgeBase | None = None
        self._choice: dict[str, Any] = {}
        self._held: dict[Name, Document] = {}

    async def follow(self, documents: Mapping[Name, Document], choice: dict[str, Any]) -> None:
        """Hold these documents, made with this choice."""
        if self._base is None or choice != self._choice:
            await self.close()
            self._base = await AsyncKnowledgeBase(":memory:", **choice).open()
            self._choice, self._held = choice, {}
        gone = [name for name in self._held if name not in documents]
        for collection in {name[0] for name in gone}:
            ids = [self._held[name].id for name in gone if name[0] == collection]
            await self._base.remove(*ids, collection=collection)
        new = [item for name, item in documents.items() if self._held.get(name) != item]
        await self._base.add(*new)
        self._held = dict(documents)

    async def answers(self, queries: Sequence[str]) -> list[Any]:
        """What it finds."""
        assert self._base is not None
        return await answers(self._base, queries)

    async def close(self) -> None:
        """Forget everything."""
        if self._base is not None:
            await self._base.close()
            self._base = None


async def answers(base: AsyncKnowledgeBase, queries: Sequence[str]) -> list[Any]:
    """All chunks with the words of each query, and the nearest ones with their cosines.

    BM25 scores are left out: removed chunks count in those of an index until it is merged.
    """
    found: list[Any] = []
    for query in queries:
        hits = await base.retrieve(query, mode="keyword", top_k=5_000, fuzzy={"mode": "off"})
        found.append((query, sorted((hit.document_id, hit.start, hit.content) for hit in hits)))
        near = await base.retrieve(query, mode="semantic", top_k=NEAREST)
        cosines = {(hit.document_id, hit.start): hit.score for hit in near}
        found.append(Nearest(query, cosines))
        if hits.degraded or near.degraded:
            found.append((*hits.degraded, *near.degraded))
    return found


MADE_WITH_NOTHING = -1
"""The choice of a base without an embedder, to which nothing was ever added."""


class Expected(NamedTuple):
    """What a base may hold and be made with.

    `stored` is what was acknowledged; documents of `pending` may also be one of these versions.
    """

    stored: State
    pending: Mapping[Name, Sequence[Version | None]] = {}
    choices: Sequence[int] = (0,)


class Held(NamedTuple):
    """What a base does hold, and the index of the choice that it is made with."""

    documents: State
    choice: int


async def check(
    site: Site, expected: Expected, reference: Reference, chance: random.Random, found: Findings
) -> Held:
    """Open a base and look at everything; it must answer as one in memory does."""
    site.settle()
    try:
        if not site.on_server:
            found.wrong += check_file(Path(site.location))
        async with site.base() as base:
            documents = await read_all(base)
            config = await base.store.config()
            choice = _choice_of(config.embedder, config.chunker_id)
            held = Held(compare(documents, expected, found), choice)
            if choice not in expected.choices:
                found.wrong.append(f"the base is made with {config}")
            await reference.follow(documents, CHOICES[choice])
            queries = _queries(expected, held.documents, chance)
            found.wrong += differences(
                await answers(base, queries), await reference.answers(queries)
            )
        found.wrong += await check_store(site.store())
    except LagottoError as exc:
        found.wrong.append(f"{type(exc).__name__}: {exc}")
        return Held(expected.stored, expected.choices[0])
    return held


class Nearest(NamedTuple):
    """The chunks nearest to a query, by document and start, with their cosines."""

    query: str
    cosines: Mapping[tuple[str, int], float]

    def other_than(self, expected: Nearest) -> list[str]:
        """Where they differ; the last ones may be any of those that are as near."""
        full = max(len(self.cosines), len(expected.cosines)) == NEAREST
        last = max(min(near.cosines.values(), default=-1.0) for near in (self, expected))
        found = []
        for place in sorted({*self.cosines, *expected.cosines}):
            ours, theirs = self.cosines.get(place), expected.cosines.get(place)
            if ours is not None and theirs is not None:
                is_same = abs(ours - theirs) < TOLERANCE
            else:
                is_same = full and (ours or theirs or 0.0) < last + TOLERANCE
            if not is_same:
                found.append(f"{self.query}: {place} has {ours} instead of {theirs}")
        return found


def differences(given: Sequence[Any], expected: Sequence[Any]) -> list[str]:
    """Where answers are others."""
    found = []
    for ours, theirs in zip_longest(given, expected):
        if isinstance(ours, Nearest) and isinstance(theirs, Nearest):
            found += ours.other_than(theirs)
        elif ours != theirs:
            found.append(f"{ours!r:.300} instead of {theirs!r:.300}")
    return found


async def read_all(base: AsyncKnowledgeBase) -> dict[Name, Document]:
    """Every document, whole; one of a file by the stem of that file."""
    documents = {}
    for outline in await base.documents():
        document = await base.get(outline.id, collection=outline.collection)
        if document is not None:
            stem = Path(document.source).stem if outline.collection == FILES else outline.id
            documents[outline.collection, stem] = document
    return documents


def compare(documents: Mapping[Name, Document], expected: Expected, found: Findings) -> State:
    """Compare documents with what may be there; the version that each of them is."""
    held: State = {}
    for name in sorted({*expected.stored, *expected.pending, *documents}):
        allowed = [expected.stored.get(name), *expected.pending.get(name, ())]
        document = documents.get(name)
        if document is None:
            held[name] = None
            if None not in allowed:
                found.lost.append(f"{name} is gone")
            continue
        held[name] = next((one for one in allowed if is_version(document, name, one)), None)
        if held[name] is None:
            version = document.metadata.get("version")
            problem = f"{name} is {version} of {len(document.text)} characters, not {allowed}"
            (found.ghosts if set(allowed) == {None} else found.lost).append(problem)
    return held


def check_file(file: Path) -> list[str]:
    """Whatever SQLite or our own rules find wrong with the tables."""
    questions = {
        "integrity": "PRAGMA integrity_check",
        "foreign keys": "PRAGMA foreign_key_check",
        "chunks without vector": "SELECT key FROM chunk WHERE level != 'parent' AND key NOT IN "
        "(SELECT chunk_key FROM embedding)",
        "documents without chunks": "SELECT id FROM document WHERE key NOT IN "
        "(SELECT document_key FROM chunk JOIN setting ON name = 'generation' "
        "AND generation = CAST(value AS INTEGER))",
        "documents without attributes": "SELECT id FROM document WHERE key NOT IN "
        f"(SELECT document_key FROM attribute) AND collection != '{FILES}'",
    }
    with closing(sqlite3.connect(file)) as connection:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            return []
        for generation in fts5_generations(SqliteConnection(connection)):
            chunks = f"SELECT key FROM chunk WHERE generation = {generation}"
            terms = f"SELECT rowid FROM chunk_terms{f'_{generation}' if generation else ''}"
            questions |= {
                f"fts5 {generation}": f"{chunks} EXCEPT {terms}",
                f"fts5 {generation}, too many": f"{terms} EXCEPT {chunks}",
            }
        rows = {name: connection.execute(sql).fetchall() for name, sql in questions.items()}
    return [f"{name}: {found}" for name, found in rows.items() if found not in ([], [("ok",)])]


async def check_store(store: Store) -> list[str]:
    """Whatever the store itself finds wrong, and chunks that a search for all does not give."""
    await store.open()
    try:
        await store.update_indexes()  # so that the check compares all of an index with the record
        problems = [found.what for found in await store.check() if found.level == "problem"]
        info, config = await store.info(), await store.config()
        problems += [f"{one} is behind" for one in info.indexes if one.applied_seq < one.changes]
        if not info.chunks or not config.dimension:
            return problems
        async with store.view(And()) as view:
            anything = np.eye(1, config.dimension, dtype=np.float32)[0]
            keys = (await view.semantic(anything, k=info.chunks + 1)).keys
            passages = await view.passages(keys)
        if len({passage.chunk.id for passage in passages}) != info.chunks:
            problems.append(f"a semantic search gives {len(passages)} of {info.chunks} chunks")
        return problems
    finally:
        await store.close()


def _queries(expected: Expected, held: State, chance: random.Random) -> list[str]:
    """Common words, names of documents, and the words of versions that are gone or still there."""
    names, touched = sorted(held), sorted(expected.pending)
    queries = [chance.choice(COMMON), *(name for _, name in _some(names, 4, chance))]
    for name in _some(touched, 3, chance):
        versions = [expected.stored.get(name), *expected.pending[name], held[name]]
        queries += [mark_of(name[1], version) for version in versions if version]
    return list(dict.fromkeys(queries))


def _some(names: Sequence[Name], most: int, chance: random.Random) -> list[Name]:
    return chance.sample(names, min(most, len(names)))


def _choice_of(embedder: str | None, chunker: str | None) -> int:
    """The index of the choice that a base is made with."""
    made = {"embedder": embedder, "chunker": chunker}
    return CHOICES.index(made) if made in CHOICES else MADE_WITH_NOTHING
