"""A capacity plan for 10^7, 10^8 and 10^9 chunks, computed from figures measured on this machine.

    python benchmarks/capacity.py [--sizes 25000,100000,200000] [--save figures.json]
    python benchmarks/capacity.py --figures figures.json [--plan 1e7,1e8,1e9] [--json]
                                  [--ram 64] [--disk 2000] [--cores 16] [--budget 50]
                                  [--replicas 2] [--price 0.04]

It builds embedded bases of several sizes with the texts and vectors of `scale.py`, searches them in
a process of its own, and embeds some texts with the default model: **measured**. A line through the
sizes gives bytes, CPU time and memory per chunk; a shard of the plan is such a base:
**extrapolated**. Machines, their price and the CPU time that a search may take in a shard are
**assumed**, and can be given. `--figures` takes figures that were measured before; a size may lack
some. A machine has as many shards as it has cores, memory and disk for.

Figures of an engine in a cluster (`"engine"` names it) come from `scale.py`. Their shards are as
large as the largest base that was measured, so that no time of a search is extrapolated: that of a
graph is no line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders.base import create_embedder
from lagotto.indexes.folder import size_of
from scale import WORDS_PER_CHUNK, Corpus, GivenVectors, Query, build

WORDS = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split()
QUERIES = 60
ROUNDS = 6
"""Searches for each query; the fastest counts, since the machine may be busy."""

EMBEDDED = 256
PLANNED = {
    "record_bytes",
    "text_index_bytes",
    "vector_index_bytes",
    "ram_bytes",
    "index_cpu_s",
    "hybrid_ms",
}
USED = 0.75
"""The share of a machine's memory and disk that is planned for."""

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A figure by the number of chunks: `base + slope * chunks`."""

    base: float
    slope: float

    @classmethod
    def through(cls, sizes: Sequence[int], values: Sequence[float]) -> Line:
        """The line of least squares; with one size, one through the origin."""
        if len(sizes) == 1:
            return cls(0.0, values[0] / sizes[0])
        slope, base = np.polyfit(sizes, values, 1)
        return cls(float(base), float(slope))

    def at(self, chunks: float) -> float:
        """The figure for so many chunks."""
        return self.base + self.slope * chunks


@dataclass(frozen=True, slots=True)
class Machine:
    """What is assumed of each machine of the cluster, and of searches."""

    ram_gb: float
    disk_gb: float
    cores: int
    budget_ms: float
    replicas: int
    price: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="25000,100000,200000")
    parser.add_argument("--figures", type=Path, help="measured before, with --save")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--plan", default="1e7,1e8,1e9")
    parser.add_argument("--ram", type=float, default=64, help="GB of a machine")
    parser.add_argument("--disk", type=float, default=2000, help="GB of a machine")
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--budget", type=float, default=50, help="ms of CPU of a search in a shard")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--price", type=float, default=0.04, help="dollars for an hour of a core")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--searched", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.searched:
        print(json.dumps(asyncio.run(searched(options.searched))))
        return
    if options.figures:
        measured = json.loads(options.figures.read_text(encoding="utf-8"))
    else:
        measured = measure([int(size) for size in options.sizes.split(",")])
    if options.save:
        options.save.write_text(json.dumps(measured, indent=2), encoding="utf-8")
    machine = Machine(
        options.ram, options.disk, options.cores, options.budget, options.replicas, options.price
    )
    planned = cluster_plan if "engine" in measured else plan
    plans = {
        chunks: planned(float(chunks), measured, machine) for chunks in options.plan.split(",")
    }
    if options.json:
        print(json.dumps({"measured": measured, "extrapolated": plans}, indent=2))
    else:
        _print(measured, plans, machine)


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """Figures of bases of several sizes, and of embedding."""
    by_size = {}
    for chunks in sizes:
        with tempfile.TemporaryDirectory() as folder:
            by_size[str(chunks)] = asyncio.run(_built(chunks, Path(folder)))
    return {"sizes": by_size, "embedding_cpu_s": asyncio.run(_embedding())}


async def _built(chunks: int, folder: Path) -> Figures:
    location = folder / "kb.db"
    corpus = Corpus(chunks)
    cpu = (await build(str(location), corpus, None))["cpu_s"]
    queries = corpus.queries(QUERIES)
    np.save(folder / "queries.npy", np.stack([query.vector for query in queries]))
    (folder / "queries.json").write_text(json.dumps([query.text for query in queries]))
    parts = {path.name.partition("-")[0]: size_of(path) for path in _index(location).iterdir()}
    return {
        "record_bytes": location.stat().st_size,
        "text_index_bytes": parts["text"],
        "vector_index_bytes": parts["vectors"],
        "index_cpu_s": cpu,
        **_searched_apart(location),
    }


def _searched_apart(location: Path) -> Figures:
    """The figures of `searched`, in a new process."""
    command = [sys.executable, __file__, "--searched", str(location)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: Figures = json.loads(answer.stdout)
    return found


def _index(location: Path) -> Path:
    return location.with_name(f"{location.name}.index")


async def searched(location: Path) -> dict[str, Any]:
    """CPU time and memory of searches, in a process that has nothing else in it."""
    vectors = np.load(location.with_name("queries.npy"))
    texts = json.loads(location.with_name("queries.json").read_text())
    queries = [Query(text, vector, 0) for text, vector in zip(texts, vectors, strict=True)]
    embedder = GivenVectors()
    embedder.vectors = {query.text: query.vector for query in queries}
    before = _own_bytes()
    figures: dict[str, Any] = {}
    async with AsyncKnowledgeBase(location, embedder=embedder) as base:
        for mode in ("semantic", "keyword", "hybrid"):
            times = np.empty((ROUNDS, len(queries)))
            for turn, index in np.ndindex(*times.shape):
                start = time.process_time()
                await base.retrieve(queries[index].text, mode=mode)
                times[turn, index] = (time.process_time() - start) * 1000
            figures[f"{mode}_ms"] = round(float(np.median(times.min(axis=0))), 3)
        figures["ram_bytes"] = _own_bytes() - before
    return figures


def _own_bytes() -> int:
    """Memory of this process that is not of files; Linux only."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


async def _embedding() -> float:
    """Seconds of CPU to embed a chunk with the default model, in batches."""
    chance = random.Random(0)
    texts = [" ".join(chance.choices(WORDS, k=WORDS_PER_CHUNK)) for _ in range(EMBEDDED)]
    embedder = create_embedder("minilm")
    await embedder.embed(texts[:8], role="document")
    start = time.process_time()
    await embedder.embed(texts, role="document")
    spent = time.process_time() - start
    await embedder.close()
    return spent / len(texts)


def plan(chunks: float, measured: Mapping[str, Any], machine: Machine) -> Figures:
    """What so many chunks need, if shards behave as the bases that were measured."""
    line = lines(measured)
    if min(each.slope for name, each in line.items() if name in PLANNED) <= 0:
        raise SystemExit(
            "more chunks took less time: measure larger sizes, or on a quieter machine"
        )
    cached = line["vector_index_bytes"].slope + line["text_index_bytes"].slope
    ram = line["ram_bytes"].slope + cached
    disk = cached + line["record_bytes"].slope
    search = line["hybrid_ms"]
    shards = math.ceil(chunks * search.slope / (machine.budget_ms - search.base))
    full = max(
        chunks * ram / (USED * machine.ram_gb * 1e9),
        chunks * disk / (USED * machine.disk_gb * 1e9),
        shards / machine.cores,
    )
    machines = max(1, math.ceil(full)) * machine.replicas
    search_ms = search.at(chunks / shards)
    embedding = measured["embedding_cpu_s"] * chunks
    indexing = line["index_cpu_s"].slope * chunks
    hours = (embedding + indexing * machine.replicas) / machine.cores / machines / 3600
    return {
        "shards": shards,
        "machines": machines,
        "chunks per shard": round(chunks / shards),
        "RAM, GB": round(ram * chunks * machine.replicas / 1e9),
        "of it not of files, GB": round(line["ram_bytes"].slope * chunks * machine.replicas / 1e9),
        "disk, GB": round(disk * chunks * machine.replicas / 1e9),
        "embedding, core hours": round(embedding / 3600),
        "indexing, core hours": round(indexing * machine.replicas / 3600, 1),
        "build on all machines, hours": round(hours, 1),
        "search in a shard, ms of CPU": round(search_ms, 1),
        "search in all shards, ms of CPU": round(search_ms * shards),
        "searches per second": round(machines * machine.cores * 1000 / (search_ms * shards)),
        "a million searches, dollars": round(search_ms * shards * machine.price / 3.6, 2),
    }


def cluster_plan(chunks: float, measured: Mapping[str, Any], machine: Machine) -> Figures:
    """What so many chunks need in a cluster whose shards are as the largest one measured."""
    size = max(map(int, measured["sizes"]))
    shard: Figures = measured["sizes"][str(size)]
    shards = math.ceil(chunks / size)
    copies = shards * machine.replicas
    full = max(
        copies * shard["node_ram_bytes"] / (USED * machine.ram_gb * 1e9),
        copies * shard["node_disk_bytes"] / (USED * machine.disk_gb * 1e9),
        copies / machine.cores,
    )
    machines = max(machine.replicas, math.ceil(full))
    embedding = measured["embedding_cpu_s"] * chunks
    client = shard["client_index_cpu_s"] * shards
    nodes = shard["node_index_cpu_s"] * copies
    search_ms = shard["client_ms"] + shard["node_ms"] * shards
    return {
        "shards": shards,
        "machines": machines,
        "chunks per shard": round(chunks / shards),
        "RAM, GB": round(copies * shard["node_ram_bytes"] / 1e9),
        "disk, GB": round(copies * shard["node_disk_bytes"] / 1e9),
        "disk of the record, GB": round(shards * shard["record_bytes"] / 1e9),
        "embedding, core hours": round(embedding / 3600),
        "indexing, core hours of clients": round(client / 3600, 1),
        "indexing, core hours of nodes": round(nodes / 3600, 1),
        "indexing on all machines, hours": round(nodes / machine.cores / machines / 3600, 1),
        "search in a shard, ms of CPU": round(shard["node_ms"], 1),
        "search in all shards and the client, ms of CPU": round(search_ms),
        "searches per second": round(machines * machine.cores * 1000 / (shard["node_ms"] * shards)),
        "a million searches, dollars": round(search_ms * machine.price / 3.6, 2),
    }


def lines(measured: Mapping[str, Any]) -> dict[str, Line]:
    """Each figure by the number of chunks."""
    found: dict[str, dict[int, float]] = {}
    for size, row in measured["sizes"].items():
        for name, value in row.items():
            found.setdefault(name, {})[int(size)] = value
    return {name: Line.through(list(by), list(by.values())) for name, by in found.items()}


def _print(measured: Mapping[str, Any], plans: Mapping[str, Figures], machine: Machine) -> None:
    sizes = measured["sizes"]
    print("Measured\n\n| |", " | ".join(f"{int(size):,} chunks" for size in sizes), "| per chunk |")
    print("| --- |" + " --- |" * (len(sizes) + 1))
    for name, line in lines(measured).items():
        values = " | ".join(f"{row[name]:,}" if name in row else "" for row in sizes.values())
        print(f"| {name} | {values} | {line.slope:.3g} |")
    print(f"\nembedding: {measured['embedding_cpu_s'] * 1000:.1f} ms of CPU per chunk")
    print(f"\nAssumed: {machine}; {USED:.0%} of memory and disk are used\n\nExtrapolated\n")
    print("| |", " | ".join(f"{float(chunks):,.0f} chunks" for chunks in plans), "|")
    print("| --- |" + " --- |" * len(plans))
    for name in next(iter(plans.values())):
        print(f"| {name} |", " | ".join(f"{each[name]:,}" for each in plans.values()), "|")


if __name__ == "__main__":
    main()
