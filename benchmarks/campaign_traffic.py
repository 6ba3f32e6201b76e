"""Concurrency: two writers, two readers and a copier on one base, all of them processes.

Writers change documents of their own, and are killed in the end. Readers check every hit against
the version that it says it is of. Each copy must hold what was acknowledged before it began, and
nothing that was not announced before it ended.
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from campaign_checks import Expected, Findings, Reference, check
from campaign_site import NAMES, Changes, Name, Site, State, Version, document_of, made_site
from campaign_worker import Child, Message, Say, Task, apply, listen, work
from lagotto.errors import StoreBusyError

LONGEST = 20.0
"""Seconds to wait for a copy."""
WRITERS = (range(30), range(30, 60))


@dataclass(slots=True)
class TrafficCounts:
    """What the processes did."""

    rounds: int = 0
    acknowledged: int = 0
    searches: int = 0
    copies: int = 0
    findings: Findings = field(default_factory=Findings)

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.acknowledged} acknowledged calls, "
            f"{self.searches} searches, {self.copies} copies"
        )


def read(task: Task, say: Say) -> None:
    """Search until killed; say what is wrong with a hit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_read(task, say))


async def _read(task: Task, say: Say) -> None:
    chance = random.Random(task.seed)
    async with task.site.base() as base:
        while True:
            query = f"zq{chance.choice(NAMES)}x"
            try:
                hits = await base.retrieve(
                    query, mode="keyword", top_k=1_000, fuzzy={"mode": "off"}
                )
                near = await base.retrieve(query, top_k=20)
            except StoreBusyError:
                continue
            for results in (hits, near):
                versions: dict[str, set[Version]] = defaultdict(set)
                for hit in results:
                    version = Version(*hit.metadata["version"])
                    versions[hit.document_id].add(version)
                    text = document_of(hit.document_id, version).text
                    if text[hit.start : hit.end] != hit.content:
                        say("wrong", f"{hit.document_id} {version}: not its text: {hit.content}")
                if torn := [name for name, seen in versions.items() if len(seen) > 1]:
                    say("wrong", f"hits of several versions of {torn}")
            if others := {hit.document_id for hit in hits} - {query}:
                say("wrong", f"a search for {query} finds {others}")
            say("searched", len(hits))


class Crowd:
    """Rounds of traffic over one base."""

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._seed = seed
        self._chance = random.Random(f"{seed}/{kind}/traffic")
        self._counts = TrafficCounts()
        self._reference = Reference()
        self._stored: State = {}

    async def run(self, rounds: int, enough: Callable[[], bool]) -> TrafficCounts:
        """So many rounds, unless it is `enough` before."""
        with made_site(self._kind) as (site, _):
            changes = Changes(self._chance, first=0)
            async with site.new_base() as base:
                self._stored = changes.add()
                await apply(base, self._stored)
            while self._counts.rounds < rounds and not enough():
                self._counts.rounds += 1
                await self._round(site)
        await self._reference.close()
        return self._counts

    async def _round(self, site: Site) -> None:
        number = self._seed * 1_000 + self._counts.rounds
        found = Findings()
        with site.target() as target:
            writers = [
                Child(work, self._task("mixed", site, 10 * number + part)) for part in (0, 1)
            ]
            readers = [Child(read, self._task("read", site, 10 * number + part)) for part in (0, 1)]
            crowd = [*writers, *readers]
            listen(crowd, seconds=self._chance.uniform(0, 2))
            copier = Child(work, self._task("copy", site, number)._replace(target=target))
            everyone = [*crowd, copier]
            listen(everyone, seconds=LONGEST, enough=lambda: bool(copier.acknowledged))
            listen(everyone, seconds=self._chance.uniform(0, 1))
            for child in everyone:
                child.kill()
            self._count(crowd, found)
            said = [writer.messages for writer in writers]
            if copier.acknowledged:
                self._counts.copies += 1
                expected = self._expected(said, began=copier.started, ended=copier.acknowledged[0])
                await check(target, expected, self._reference, self._chance, found)
        expected = self._expected(said, began=math.inf, ended=math.inf)
        held = await check(site, expected, self._reference, self._chance, found)
        self._stored = held.documents
        self._counts.findings.extend(found.labelled(f"{self._kind}, traffic, {number}"))

    def _task(self, operation: str, site: Site, seed: int) -> Task:
        return Task(operation, site, seed, self._stored, names=WRITERS[seed % len(WRITERS)])

    def _expected(
        self, said: Sequence[Sequence[Message]], *, began: float, ended: float
    ) -> Expected:
        """What a copy may hold that was made in this time."""
        stored = dict(self._stored)
        pending: dict[Name, list[Version | None]] = defaultdict(list)
        for messages in said:
            calls = [message for message in messages if message.verb in ("will", "did")]
            for call, answer in zip_longest(calls[::2], calls[1::2]):
                if answer is not None and answer.at <= began:
                    stored |= call.about
                elif call.at <= ended:
                    for name, version in call.about.items():
                        pending[name].append(version)
        return Expected(stored, pending)

    def _count(self, crowd: Sequence[Child], found: Findings) -> None:
        for message in (message for child in crowd for message in child.messages):
            self._counts.acknowledged += message.verb == "did"
            self._counts.searches += message.verb == "searched"
            if message.verb in ("wrong", "failed"):
                found.wrong.append(message.about)
