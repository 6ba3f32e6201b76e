"""Kill a process that writes to a base, again and again, and see what is left.

    python benchmarks/crash.py --kills 100

A child process adds, changes and removes documents, and says so after each call. It is killed at
random moments, also while it opens the base, brings its indexes up to date or saves vectors. Then
the base is opened and compared with what the child has said: only the call that was under way may
have happened or not. The next child goes on with the same base.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from lagotto.documents import Document
from lagotto.filters import And
from lagotto.knowledge import AsyncKnowledgeBase
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.hash_embedder import HashEmbedder

CHUNKER = "recursive:12/0"
NAMES = 60
AT_ONCE = 6
SEARCHED = 12

State = dict[str, str | None]
"""Content hash of each document, None for one that is gone."""


@dataclass(slots=True)
class Outcome:
    """What a campaign found."""

    kills: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    inconsistent: list[str] = field(default_factory=list)


def main() -> None:
    """Run the campaign for both text indexes, or, with --write, be the child."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", nargs=3, metavar=("FILE", "TEXT_INDEX", "SEED"))
    options = parser.parse_args()
    if options.write:
        file, text_index, seed = options.write
        asyncio.run(write(Path(file), text_index, random.Random(int(seed))))
        return
    outcomes = {}
    for text_index, kills in (("tantivy", -(-options.kills // 2)), ("fts5", options.kills // 2)):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kb.db"
            outcomes[text_index] = campaign(file, text_index, kills=kills, seed=options.seed)
    _print(outcomes, as_json=options.json)


def campaign(file: Path, text_index: str, *, kills: int, seed: int) -> Outcome:
    """Kill a writer of `file` so many times, each time looking at what it left."""
    chance = random.Random(seed)
    outcome = Outcome()
    stored: State = {}
    for number in range(kills):
        lines = killed(file, text_index, seed=seed + number, after=_moment(chance))
        before = dict(stored)
        pending = replay(lines, stored)
        outcome.kills += 1
        outcome.acknowledged += sum(line.startswith("did ") for line in lines)
        if file.exists():
            found = asyncio.run(check(file, stored, pending, chance, outcome))
            stored = found
        elif any(before.values()):
            outcome.lost.append("the file itself")
    return outcome


def killed(file: Path, text_index: str, *, seed: int, after: float) -> list[str]:
    """What a child said before it was killed, `after` seconds from its start or first word."""
    command = [sys.executable, __file__, "--write", str(file), text_index, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()  # modules are loaded; the base is opened now
        time.sleep(after)
        child.kill()
        rest = child.stdout.read()
    return [line for line in (first + rest).splitlines(keepends=False) if line]


async def write(file: Path, text_index: str, chance: random.Random) -> None:
    """Change the base for ever, announcing and acknowledging each call."""
    _say("ready")
    async with AsyncKnowledgeBase(
        file, embedder=HashEmbedder(), chunker=CHUNKER, text_index=text_index
    ) as base:
        while True:
            change = _change(chance)
            _say(f"will {json.dumps(change)}")
            names = [name for name, text in change.items() if text is None]
            documents = [_document(name, text) for name, text in change.items() if text]
            if documents:
                await base.add(*documents)
            else:
                await base.remove(*names)
            _say(f"did {json.dumps(change)}")
            if chance.random() < 0.5:
                await base.retrieve(chance.choice(list(change)), top_k=3)


def replay(lines: Sequence[str], stored: State) -> State:
    """Bring `stored` up to what was acknowledged; what was merely announced comes back."""
    pending: State = {}
    for line in lines:
        verb, _, said = line.partition(" ")
        if verb == "ready" or not said.endswith("}"):
            continue
        change = {name: _hash(name, text) for name, text in json.loads(said).items()}
        if verb == "did":
            stored |= change
            pending = {}
        else:
            pending = change
    return pending


async def check(
    file: Path, stored: State, pending: State, chance: random.Random, outcome: Outcome
) -> State:
    """Compare the base with what it should hold; what it does hold."""
    outcome.inconsistent += check_file(file)
    async with AsyncKnowledgeBase(file, embedder=HashEmbedder(), chunker=CHUNKER) as base:
        found: State = dict.fromkeys([*stored, *pending])
        for name in [outline.id for outline in await base.documents()]:
            document = await base.get(name)
            found[name] = document.content_hash if document else None
            if document != _document(name, document.text if document else ""):
                outcome.inconsistent.append(f"{name} has changed")
        for name, expected in stored.items():
            if found[name] != expected and not (name in pending and found[name] == pending[name]):
                outcome.lost.append(f"{name}: {found[name]} instead of {expected}")
        if found.keys() != {*stored, *pending}:
            outcome.inconsistent.append("there are documents that nobody has added")
        living = [name for name, content in found.items() if content]
        outcome.inconsistent += await check_search(base, living, chance)
    outcome.inconsistent += await check_vectors(file)
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


async def check_vectors(file: Path) -> list[str]:
    """Chunks that a search for all of them does not give."""
    store = SqliteStore(file)
    await store.open()
    try:
        with closing(sqlite3.connect(file)) as connection:
            rows = connection.execute("SELECT key FROM chunk WHERE level != 'parent'").fetchall()
        keys = sorted(key for (key,) in rows)
        (query,) = await HashEmbedder().embed(["anything"], role="query")
        async with store.view(And()) as view:
            hits = await view.semantic(query, k=len(keys) + 1)
        return [] if np.array_equal(np.sort(hits.keys), keys) else ["a semantic search misses some"]
    finally:
        await store.close()


def _change(chance: random.Random) -> dict[str, str | None]:
    """Texts of documents to add or replace, or names of documents to remove.

    Some have so many chunks that the vectors are saved.
    """
    names = chance.sample(range(NAMES), chance.randint(1, AT_ONCE))
    if chance.random() < 0.25:
        return {f"zq{number}x": None for number in names}
    most = 9_000 if chance.random() < 0.2 else 100
    return {f"zq{number}x": _text(chance, most) for number in names}


def _text(chance: random.Random, most: int) -> str:
    words = chance.randint(5, most)
    return " ".join(chance.choices(["water", "dog", "truffle", "oak", "root"], k=words))


def _document(name: str, text: str) -> Document:
    return Document(id=name, title=name, text=text, metadata={"name": name})


def _hash(name: str, text: str | None) -> str | None:
    return _document(name, text).content_hash if text else None


def _moment(chance: random.Random) -> float:
    """Seconds from the first word to the kill: now and then while the base is opened."""
    return chance.uniform(0, 0.05) if chance.random() < 0.3 else chance.uniform(0.05, 1.5)


def _say(line: str) -> None:
    print(line, flush=True)


def _print(outcomes: dict[str, Outcome], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
        return
    print(f"{'text index':12} {'kills':>6} {'acknowledged':>13} {'lost':>6} {'inconsistent':>13}")
    for name, found in outcomes.items():
        counts = (found.kills, found.acknowledged, len(found.lost), len(found.inconsistent))
        print(f"{name:12} {counts[0]:6} {counts[1]:13} {counts[2]:6} {counts[3]:13}")
        for problem in (*found.lost, *found.inconsistent):
            print(f"  {problem[:300]}")


if __name__ == "__main__":
    main()
