"""Kill, damage and crowd bases, and compare what is left with what was acknowledged.

    python benchmarks campaign --kills 1000 --minutes 90
    python benchmarks campaign --parts kills --kinds postgresql,server --kills 200 --seed 7

Three parts, on embedded bases with either text index and on a PostgreSQL server of its own:
`kills` ends processes, or the server, in the middle of every operation; `damage` changes bytes in
every file; `traffic` has writers, readers and a copier at work at once. What may not happen is
counted: acknowledged documents lost, ghosts (documents that were removed, or that nobody added),
wrong answers. Choices are seeded; the moment of a kill also depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Protocol

from campaign_damage import DamageCounts, Vandal
from campaign_kills import KillCounts, Killer
from campaign_site import KINDS
from campaign_traffic import Crowd, TrafficCounts
from campaign_worker import start_server

Counts = KillCounts | DamageCounts | TrafficCounts


class Part(Protocol):
    """One part of the campaign, on one kind of base."""

    async def run(self, count: int, enough: Callable[[], bool], /) -> Counts:
        """Run `count` rounds, unless it is `enough` before."""
        ...


PARTS: dict[str, tuple[Callable[[str, int], Part], Sequence[str]]] = {
    "kills": (Killer, KINDS),
    "damage": (Vandal, ("tantivy", "fts5")),
    "traffic": (Crowd, ("tantivy", "fts5", "postgresql")),
}
"""Each part, and the kinds of bases it makes sense for: a server has its files to itself."""


def main() -> int:
    """Run the parts for each kind of base; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000, help="over all kinds of bases")
    parser.add_argument("--damage", type=int, default=600, help="damaged files, over all kinds")
    parser.add_argument("--traffic", type=int, default=30, help="rounds of traffic")
    parser.add_argument("--minutes", type=float, default=90.0, help="stop after so much time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # an index that is rebuilt says so
    start_server()
    deadline = time.monotonic() + 60 * options.minutes
    counts = asyncio.run(run_all(options, lambda: time.monotonic() > deadline))
    print(json.dumps(counts, default=as_fields) if options.json else table(counts))
    return int(any(one.findings.all() for part in counts.values() for one in part.values()))


def as_fields(record: Any) -> dict[str, Any]:
    """The fields of a dataclass; `asdict` can't copy a Counter."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


async def run_all(
    options: argparse.Namespace, enough: Callable[[], bool]
) -> dict[str, dict[str, Counts]]:
    """The counts of each part and kind of base."""
    counts: dict[str, dict[str, Counts]] = {}
    for name in options.parts.split(","):
        part, known = PARTS[name]
        kinds = [kind for kind in options.kinds.split(",") if kind in known]
        for number, kind in enumerate(kinds):
            share = (getattr(options, name) + len(kinds) - 1 - number) // len(kinds)
            counts.setdefault(name, {})[kind] = await part(kind, options.seed).run(share, enough)
    return counts


def table(counts: dict[str, dict[str, Counts]]) -> str:
    """A line for each part and kind of base, and what was found."""
    lines = []
    for part, kinds in counts.items():
        for kind, found in kinds.items():
            said = found.findings
            numbers = f"lost {len(said.lost)}, ghosts {len(said.ghosts)}, wrong {len(said.wrong)}"
            lines += [f"{part} {kind}: {found}; {numbers}", *said.all()]
    return "\n".join(lines)
