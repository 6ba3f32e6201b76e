"""Kill a process that writes to a base, again and again, and see what is left.

    python benchmarks/crash.py --kills 100
    python benchmarks/crash.py --kills 40 --store postgresql --server

A child process adds, changes and removes documents, and says so after each call. It is killed at
random moments, also while it opens the base, brings its indexes up to date or saves vectors. With
--server it is every other time the server that ends, as in a crash. Then the base is opened and
compared with what the child has said: only the call that was under way may have happened or not.
The next child goes on with the same base.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from crash_checks import Outcome, Place, State, check, make_document, replay
from lagotto.errors import StoreUnavailableError
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.testing.postgres import PostgresServer

NAMES = 60
AT_ONCE = 6


def main() -> None:
    """Run the campaign for each kind of base, or, with --write, be the child."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--server", action="store_true", help="crash the server as well")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", nargs=3, metavar=("LOCATION", "TEXT_INDEX", "SEED"))
    options = parser.parse_args()
    if options.write:
        location, text_index, seed = options.write
        asyncio.run(write(Place(location, text_index), random.Random(int(seed))))
        return
    kinds = ("postgresql",) if options.store == "postgresql" else ("tantivy", "fts5")
    outcomes = {}
    for number, kind in enumerate(kinds):
        kills = (options.kills + len(kinds) - 1 - number) // len(kinds)
        with made(kind) as place:
            outcomes[kind] = campaign(
                place, kills=kills, seed=options.seed, crash_server=options.server
            )
    _print(outcomes, as_json=options.json)


@contextmanager
def made(kind: str) -> Iterator[Place]:
    """A place for a base: a file, or a server that keeps what it acknowledges."""
    if kind == "postgresql":
        with PostgresServer({}) as server:
            yield Place(server.url(), server=server)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Place(str(Path(folder) / "kb.db"), kind)


def campaign(place: Place, *, kills: int, seed: int, crash_server: bool) -> Outcome:
    """Kill a writer, or its server, so many times, each time looking at what is left."""
    chance = random.Random(seed)
    outcome = Outcome()
    stored: State = {}
    for number in range(kills):
        server = place.server if crash_server and number % 2 else None
        lines = killed(place, server, seed=seed + number, after=_moment(chance))
        before = dict(stored)
        pending = replay(lines, stored)
        outcome.kills += 1
        outcome.acknowledged += sum(line.startswith("did ") for line in lines)
        if place.exists():
            stored = asyncio.run(check(place, stored, pending, chance, outcome))
        elif any(before.values()):
            outcome.lost.append("the file itself")
    return outcome


def killed(place: Place, server: PostgresServer | None, *, seed: int, after: float) -> list[str]:
    """What a child said before it or its server ended, so long after its start."""
    command = [sys.executable, __file__, "--write", place.location, place.text_index, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()  # modules are loaded; the base is opened now
        time.sleep(after)
        if server:
            server.stop(mode="immediate")
        child.kill()
        rest = child.stdout.read()
    if server:
        server.start()
    return [line for line in (first + rest).splitlines(keepends=False) if line]


async def write(place: Place, chance: random.Random) -> None:
    """Change the base for ever, announcing and acknowledging each call."""
    base = place.base()  # loads the modules that it needs
    _say("ready")
    try:
        async with base:
            while True:
                await _write_once(base, chance)
    except StoreUnavailableError as exc:
        _say(f"ended {exc}")


async def _write_once(base: AsyncKnowledgeBase, chance: random.Random) -> None:
    change = _change(chance)
    _say(f"will {json.dumps(change)}")
    names = [name for name, text in change.items() if text is None]
    documents = [make_document(name, text) for name, text in change.items() if text]
    if documents:
        await base.add(*documents)
    else:
        await base.remove(*names)
    _say(f"did {json.dumps(change)}")
    if chance.random() < 0.5:
        await base.retrieve(chance.choice(list(change)), top_k=3)


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


def _moment(chance: random.Random) -> float:
    """Seconds from the first word to the kill: now and then while the base is opened."""
    return chance.uniform(0, 0.05) if chance.random() < 0.3 else chance.uniform(0.05, 1.5)


def _say(line: str) -> None:
    print(line, flush=True)


def _print(outcomes: dict[str, Outcome], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
        return
    print(f"{'base':12} {'kills':>6} {'acknowledged':>13} {'lost':>6} {'inconsistent':>13}")
    for name, found in outcomes.items():
        counts = (found.kills, found.acknowledged, len(found.lost), len(found.inconsistent))
        print(f"{name:12} {counts[0]:6} {counts[1]:13} {counts[2]:6} {counts[3]:13}")
        for problem in (*found.lost, *found.inconsistent):
            print(f"  {problem[:300]}")


if __name__ == "__main__":
    main()
