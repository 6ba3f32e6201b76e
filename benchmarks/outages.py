"""What becomes of searches and of adding while nodes of a Qdrant cluster are killed.

    python benchmarks/outages.py [--record sqlite|postgresql] [--documents 5000] [--seconds 10]
                                 [--one-node]

A base whose indexes have three shards and two replicas, on a cluster of three nodes on this
machine. All the time it is searched, by words that only one document has, and in steps of ten
documents added to. Nodes are killed (SIGKILL) and started again: one, the one that is asked, and
two of three. A search is right if it finds its document; it may do without if it says that it is
degraded. At last every acknowledged document must be found, and the indexes must be complete by the
check that `lagotto doctor` makes. With `--one-node` the address of the indexes names only the node
that is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import LagottoError
from lagotto.testing.hash_embedder import HashEmbedder
from places import RECORDS, temporary_location
from servers import QdrantNode, all_active, cluster_address, qdrant_cluster

SHARDS, REPLICAS = 3, 2
STEP = 10
"""Documents in a call of `add`."""
BETWEEN_ADDS = 0.2
LONGEST_RECOVERY = 120.0
CHECKED = 300
"""Documents that are looked for at the end."""


def word_of(number: int) -> str:
    """The word that only one document has, without digits: those are identifiers."""
    return "q" + "".join("abcdefghij"[int(digit)] for digit in str(number)) + "x"


def document_of(number: int) -> Document:
    text = f"{word_of(number)} is one of many truffles under oak number {number % 97}"
    return Document(id=f"d{number}", text=text, language="en", metadata={"n": number})


@dataclass(slots=True)
class Phase:
    """What happened between two events."""

    name: str
    began: float = field(default_factory=time.monotonic)
    milliseconds: list[float] = field(default_factory=list)
    degraded: list[float] = field(default_factory=list)
    """When searches ended that did without an index."""
    missed: int = 0
    """Degraded searches that did not find their document."""
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    added: int = 0

    def __str__(self) -> str:
        times = self.milliseconds or [0.0]
        p50, p95 = np.percentile(times, [50, 95])
        last = max(self.degraded, default=self.began) - self.began
        return (
            f"{self.name:32} {len(self.milliseconds):5} searches, {p50:6.0f} / {p95:6.0f} / "
            f"{max(times):6.0f} ms, {len(self.degraded):4} degraded (last after {last:4.1f} s, "
            f"{self.missed} without their document), {len(self.errors)} errors, "
            f"{len(self.wrong)} wrong, {self.added} documents added"
        )


class Outages:
    """A base under load, and the phases so far."""

    def __init__(self, base: AsyncKnowledgeBase, documents: int) -> None:
        self._base = base
        self.acknowledged = documents
        self.phases: list[Phase] = []
        self._chance = random.Random(0)

    def enter(self, name: str) -> None:
        """Begin another phase."""
        self.phases.append(Phase(name))

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Search and add meanwhile."""
        tasks = [asyncio.create_task(self._search()), asyncio.create_task(self._add())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _search(self) -> None:
        while True:
            await self._search_for(self._chance.randrange(self.acknowledged))

    async def _search_for(self, number: int) -> None:
        phase, start = self.phases[-1], time.monotonic()
        try:
            hits = await self._base.retrieve(word_of(number), fuzzy={"mode": "off"}, top_k=3)
        except LagottoError as exc:
            phase.errors.append(f"{type(exc).__name__}: {exc}")
            await asyncio.sleep(0.05)
            return
        end = time.monotonic()
        phase.milliseconds.append(1000 * (end - start))
        found = bool(hits) and hits[0].document_id == f"d{number}"
        if hits.degraded:
            phase.degraded.append(end)
            phase.missed += not found
        elif not found:
            phase.wrong.append(f"{word_of(number)}: {[hit.document_id for hit in hits]}")

    async def _add(self) -> None:
        while True:
            first = self.acknowledged
            documents = [document_of(number) for number in range(first, first + STEP)]
            try:
                await self._base.add(*documents)
            except LagottoError as exc:
                self.phases[-1].errors.append(f"add: {type(exc).__name__}: {exc}")
            else:
                self.acknowledged += STEP
                self.phases[-1].added += STEP
            await asyncio.sleep(BETWEEN_ADDS)

    async def look_for_all(self) -> None:
        """Look for many of the acknowledged documents, the last ones among them."""
        self.enter("afterwards")
        last = range(max(0, self.acknowledged - CHECKED // 2), self.acknowledged)
        some = self._chance.sample(range(self.acknowledged), min(CHECKED // 2, self.acknowledged))
        for number in (*some, *last):
            await self._search_for(number)


async def run(options: argparse.Namespace) -> list[Phase]:
    """All phases."""
    with (
        temporary_location(options.record) as location,
        qdrant_cluster(SHARDS, on_disk=True) as nodes,
    ):
        named = nodes[:1] if options.one_node else nodes
        address = cluster_address(named, "outages", shards=SHARDS, replicas=REPLICAS)
        embedder = HashEmbedder(dimension=64)
        async with AsyncKnowledgeBase(
            location, embedder=embedder, vector_index=address, text_index="qdrant"
        ) as base:
            await base.add(*map(document_of, range(options.documents)))
            outages = Outages(base, options.documents)
            async with outages.load():
                await phases(outages, nodes, options.seconds)
            await base._store.update_indexes()
            await outages.look_for_all()
            report(outages)
            info, findings = await base.info(), await base._store.check()
            print(f"{info.documents} documents, {outages.acknowledged} acknowledged")
            print([finding for finding in findings if finding.level != "ok"] or "doctor: all well")
    return outages.phases


async def phases(outages: Outages, nodes: Sequence[QdrantNode], seconds: float) -> None:
    """Kill and start nodes."""
    asked, other, third = nodes
    outages.enter("three nodes")
    await asyncio.sleep(seconds)
    for name, killed in (
        ("one killed", [third]),
        ("the node that is asked killed", [asked]),
        ("two killed", [other, third]),
    ):
        outages.enter(name)
        for node in killed:
            node.kill()
        await asyncio.sleep(seconds)
        outages.enter(f"{name}, and started")
        start = time.monotonic()
        for node in killed:
            node.start(wait=False)
        await until(lambda: all_active(nodes, SHARDS * REPLICAS))
        print(f"{name}: {time.monotonic() - start:.1f} s from the start to all replicas active")
        await asyncio.sleep(seconds / 2)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    last = time.monotonic() + LONGEST_RECOVERY
    while not await asyncio.to_thread(condition):
        if time.monotonic() > last:
            raise TimeoutError("the cluster has not recovered")
        await asyncio.sleep(0.1)


def report(outages: Outages) -> None:
    for phase in outages.phases:
        print(phase)
        for line in [*dict.fromkeys(phase.errors)][:3] + phase.wrong[:3]:
            print("   ", line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--record", choices=RECORDS, default="sqlite")
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--one-node", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # each attempt to follow says that it failed
    found = asyncio.run(run(options))
    return int(any(phase.wrong for phase in found))


if __name__ == "__main__":
    raise SystemExit(main())
