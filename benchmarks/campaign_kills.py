"""Kills: a process, or its server, ends at a random moment of an operation.

The next process goes on with the same base. What is checked after each kill: nothing acknowledged
is lost, only the call that was under way may have happened or not, and every answer is that of a
base in memory with the same documents. A copy or a sync that was killed is run again, to its end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from campaign_checks import MADE_WITH_NOTHING, Expected, Findings, Reference, check
from campaign_site import FILES, Changes, Site, State, Version, made_site
from campaign_worker import OPERATIONS, WRITES, Child, Message, Task, apply, listen, work
from lagotto.base.copy import copy_base
from lagotto.documents import DEFAULT_COLLECTION
from lagotto.errors import LagottoError
from places import PostgresServer

FILL = 6
"""Calls of `add` that a base begins with."""
FIRST = 1.0
"""Seconds that a call takes, until one was acknowledged."""
LONGEST = 30.0
"""Seconds to wait for the calls that are to be acknowledged before a kill."""
TO_TARGET = ("copy", "create")
"""Operations that make another base."""
MOST_FINDINGS = 20
"""After so many a base is given up."""


@dataclass(slots=True)
class KillCounts:
    """What became of the kills of one kind of base."""

    kills: Counter[str] = field(default_factory=Counter)
    midway: int = 0
    """Kills while a call was under way."""
    acknowledged: int = 0
    findings: Findings = field(default_factory=Findings)

    def __str__(self) -> str:
        operations = ", ".join(f"{name} {count}" for name, count in self.kills.items())
        return (
            f"{self.kills.total()} kills ({operations}), {self.midway} of them midway, "
            f"{self.acknowledged} acknowledged calls"
        )


class Calls(NamedTuple):
    """What a process said that it did, and what it had merely announced."""

    acknowledged: State
    pending: State
    midway: bool
    calls: int
    failed: list[str]


def replayed(said: Sequence[Message], pending: State) -> Calls:
    """What the messages of a process mean; it began with `pending`."""
    acknowledged: State = {}
    midway, calls = True, 0
    for message in said:
        if message.verb == "will":
            pending, midway = message.about, True
        elif message.verb == "did":
            acknowledged |= pending
            pending, midway, calls = {}, False, calls + 1
    failed = [message.about for message in said if message.verb == "failed"]
    return Calls(acknowledged, pending, midway, calls, failed)


class Killer:
    """Kills over one base, in every operation in turn."""

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._seed = seed
        self._chance = random.Random(f"{seed}/{kind}")
        self._counts = KillCounts()
        self._reference = Reference()
        self._seconds: dict[str, float] = {}
        self._stored: State = {}
        self._choice = 0
        self._round = 0

    async def run(self, kills: int, enough: Callable[[], bool]) -> KillCounts:
        """Kill so many times, unless it is `enough` before."""
        with made_site(self._kind) as (site, server):
            await self._fill(site)
            while self._round < kills and not enough():
                operation = list(OPERATIONS)[self._round % len(OPERATIONS)]
                self._round += 1
                await self._kill(operation, site, server if self._kind == "server" else None)
                if len(self._counts.findings.all()) >= MOST_FINDINGS:
                    break
        await self._reference.close()
        return self._counts

    async def _fill(self, site: Site) -> None:
        changes = Changes(self._chance, first=0)
        async with site.new_base() as base:
            for _ in range(FILL):
                change = changes.add()
                await apply(base, change)
                self._stored |= change

    async def _kill(self, operation: str, site: Site, server: PostgresServer | None) -> None:
        found = Findings()
        pending = self._prepare(operation, site)
        choice = 1 - self._choice if operation == "rebuild" else self._choice
        with site.target() if operation in TO_TARGET else nullcontext() as target:
            task = Task(operation, site, self._number(), self._stored, target=target, choice=choice)
            calls = replayed(self._killed(task, server), pending)
            site.settle()
            found.wrong += calls.failed
            if operation == "create" and target is not None:
                await self._finish_creation(target, calls, found)
                calls = calls._replace(acknowledged={}, pending={})
            self._stored |= calls.acknowledged
            await self._check(site, found, calls.pending, choices={self._choice, choice})
            if operation == "rebuild" and not calls.midway and self._choice != choice:
                found.wrong.append("a rebuild that ended has not switched")
            if operation == "copy" and target is not None:
                await self._finish_copy(site, target, found)
            if operation == "sync":
                await self._finish_sync(site, calls.pending, found)
        self._counts.kills[operation] += 1
        self._counts.midway += calls.midway
        self._counts.acknowledged += calls.calls
        self._counts.findings.extend(found.labelled(f"{self._kind}, {operation}, {self._round}"))

    def _number(self) -> int:
        return self._seed * 100_000 + self._round

    def _prepare(self, operation: str, site: Site) -> State:
        """Bring a base into the state that an operation begins with; what it will change."""
        if operation == "sync":
            files = Changes(self._chance, first=1_000 * self._number()).files()
            site.write_files(files, number=1_000_000_000 + self._round)
            return files
        if operation == "index":
            site.drop_indexes()
        return {}

    def _killed(self, task: Task, server: PostgresServer | None) -> list[Message]:
        """What a process said until it or its server ended."""
        child = Child(work, task)  # modules are loaded; the base is opened now
        self._wait(task.operation, child)
        if server:
            server.stop(mode="immediate")
        child.kill()
        if server:
            server.start()
        return child.messages

    def _wait(self, operation: str, child: Child) -> None:
        """Until the moment of the kill: now and then while the base is opened."""
        if self._chance.random() < 0.2:
            return listen([child], seconds=self._chance.uniform(0, 0.05))
        usual = self._seconds.setdefault(operation, FIRST)
        if operation in WRITES:
            calls = self._chance.randint(0, 3)
            listen([child], seconds=LONGEST, enough=lambda: len(child.acknowledged) >= calls)
        listen([child], seconds=self._chance.uniform(0, 1.2 * usual))
        moments = [child.started, *child.acknowledged]
        if len(moments) > 1:
            self._seconds[operation] = moments[-1] - moments[-2]
        else:  # the machine may be slower than it was
            self._seconds[operation] = min(1.1 * usual, LONGEST)
        return None

    async def _check(
        self, site: Site, found: Findings, pending: State, *, choices: set[int]
    ) -> None:
        under_way = {name: (version,) for name, version in pending.items()}
        expected = Expected(self._stored, under_way, sorted(choices))
        held = await check(site, expected, self._reference, self._chance, found)
        self._stored, self._choice = held.documents, held.choice

    async def _finish_creation(self, site: Site, calls: Calls, found: Findings) -> None:
        """A base that was never complete is completed by the next process."""
        first: State = {(DEFAULT_COLLECTION, "first"): Version(1, 20)}
        try:
            async with site.new_base() as base:
                await apply(base, first)
        except LagottoError as exc:
            found.wrong.append(f"{type(exc).__name__}: {exc}")
            return
        pending = {name: (version,) for name, version in calls.pending.items()}
        expected = Expected({**first, **calls.acknowledged}, pending)
        await check(site, expected, self._reference, self._chance, found)

    async def _finish_copy(self, site: Site, target: Site, found: Findings) -> None:
        """A copy that was interrupted is resumed, and then is the same."""
        source, copy = site.store(), target.store()
        await source.open()
        await copy.open()
        try:
            await copy_base(source, copy)
        finally:
            await copy.close()
            await source.close()
        # a copy without a document is made with nothing yet
        choices = (
            (self._choice,) if any(self._stored.values()) else (self._choice, MADE_WITH_NOTHING)
        )
        expected = Expected(self._stored, choices=choices)
        await check(target, expected, self._reference, self._chance, found)

    async def _finish_sync(self, site: Site, pending: State, found: Findings) -> None:
        """The next sync makes up for one that was killed."""
        async with site.base() as base:
            await base.sync(site.folder, collection=FILES)
        self._stored = {**self._stored, **pending}
        await self._check(site, found, {}, choices={self._choice})
