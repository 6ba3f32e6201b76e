"""Kill a process that rebuilds a base, again and again, and see what is left.

    python benchmarks/crash_rebuild.py --kills 100
    python benchmarks/crash_rebuild.py --kills 40 --store postgresql --server

A child process rebuilds the base with another embedder and chunker. It is killed at random moments,
from the opening of the base to the switch and the tidying up behind it. With --server it is every
other time the server that ends, as in a crash. Then the base is opened, and must have all its
documents and answer exactly as before the rebuild or exactly as after it. The next child goes on;
once a rebuild is through, the following one leads back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from crash import made
from crash_checks import Place, check_store
from lagotto.embedders import EMBEDDERS
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.testing.postgres import PostgresServer
from lagotto.testing.rebuild import Answers, answers, document, hashed

DOCUMENTS = [document(number) for number in range(150)]
CHOICES: tuple[dict[str, Any], ...] = (
    {"embedder": "hashed:one/64", "chunker": "sentence:24/4"},
    {"embedder": "hashed:two/32", "chunker": "recursive:16/4"},
)


@dataclass
class Outcome:
    """What became of all kills; `wrong` should be empty."""

    kills: int = 0
    switched: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    """Run the campaign for each kind of base, or, with --rebuild, be the child."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--server", action="store_true", help="crash the server as well")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rebuild", nargs=2, metavar=("LOCATION", "CHOICE"))
    options = parser.parse_args()
    EMBEDDERS.register("hashed", hashed)
    if options.rebuild:
        asyncio.run(rebuild(options.rebuild[0], CHOICES[int(options.rebuild[1])]))
        return
    kinds = ("postgresql",) if options.store == "postgresql" else ("tantivy", "fts5")
    outcomes = {}
    for number, kind in enumerate(kinds):
        kills = (options.kills + len(kinds) - 1 - number) // len(kinds)
        with made(kind) as place:
            campaign = Campaign(place, random.Random(options.seed), crash_server=options.server)
            outcomes[kind] = asyncio.run(campaign.run(kills))
    if options.json:
        print(json.dumps({kind: asdict(outcome) for kind, outcome in outcomes.items()}))
        return
    for kind, outcome in outcomes.items():
        print(
            f"{kind}: {outcome.kills} kills, {outcome.switched} of them after the switch, ", end=""
        )
        print(f"{outcome.resumed} documents resumed, {len(outcome.wrong)} wrong")
        print(*outcome.wrong, sep="\n", end="")


async def rebuild(location: str, choice: dict[str, Any]) -> None:
    """Rebuild a base, which ends in being killed, or not."""
    base = AsyncKnowledgeBase(location)
    print("ready", flush=True)
    async with base:
        report = await base.rebuild(**choice)
    print(json.dumps(report.model_dump(mode="json")), flush=True)


class Campaign:
    """Kills over one base."""

    def __init__(self, place: Place, chance: random.Random, *, crash_server: bool) -> None:
        self._place = place
        self._chance = chance
        self._crash_server = crash_server
        self._outcome = Outcome()
        self._expected: dict[str, Answers] = {}
        self._seconds = 0.0

    async def run(self, kills: int) -> Outcome:
        """Make the base, kill so many rebuilds of it, and let a last one end."""
        await self._make()
        current = 1
        for number in range(kills):
            server = self._place.server if self._crash_server and number % 2 else None
            target = 1 - current
            self._kill(target, server)
            self._outcome.kills += 1
            reached = await self._check()
            self._outcome.switched += reached == target
            current = reached if reached is not None else current
        report = self._finish(1 - current)
        self._outcome.resumed += report["resumed"]
        if await self._check() != 1 - current:
            self._outcome.wrong.append("a rebuild that ended has not switched")
        return self._outcome

    async def _make(self) -> None:
        """A base with the first choice, and what it answers under either; how long that takes."""
        async with AsyncKnowledgeBase(self._place.store(), **CHOICES[0]) as base:
            await base.add(*DOCUMENTS)
            for choice in CHOICES:
                started = time.monotonic()
                await base.rebuild(**choice)
                self._seconds = time.monotonic() - started
                self._expected[choice["embedder"]] = await answers(base)

    def _kill(self, target: int, server: PostgresServer | None) -> None:
        with self._child(target) as child:
            assert child.stdout is not None
            child.stdout.readline()  # modules are loaded; the base is opened now
            time.sleep(self._chance.uniform(0, 1.2 * self._seconds))
            if server:
                server.stop(mode="immediate")
            child.kill()
        if server:
            server.start()
        self._place.settle()

    def _finish(self, target: int) -> dict[str, Any]:
        with self._child(target) as child:
            said = child.communicate()[0].splitlines()
        assert child.returncode == 0, said
        report: dict[str, Any] = json.loads(said[-1])
        return report

    def _child(self, target: int) -> subprocess.Popen[str]:
        words = [sys.executable, __file__, "--rebuild", self._place.location, str(target)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    async def _check(self) -> int | None:
        """Which choice the base is made with; what is not as it should be is noted."""
        wrong = self._outcome.wrong
        async with AsyncKnowledgeBase(self._place.location) as base:
            info = await base.info()
            expected = self._expected.get(info.embedder or "")
            if await answers(base) != expected:
                wrong.append(f"answers under {info.embedder} are others")
            for each in DOCUMENTS:
                if await base.get(each.id, collection=each.collection) != each:
                    wrong.append(f"{each.id} has changed or is gone")
            if info.documents != len(DOCUMENTS):
                wrong.append(f"there are {info.documents} documents")
        wrong += await check_store(self._place.store())
        names = [choice["embedder"] for choice in CHOICES]
        return names.index(info.embedder) if info.embedder in names else None


if __name__ == "__main__":
    main()
