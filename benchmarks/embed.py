"""How fast the local embedders are: passages per second, one query's latency, memory, start-up.

    python benchmarks embed [--rounds 5] [--passages 96]

Variants alternate in one process, in every round, so that a busy machine slows all of them
alike; medians are shown. Passages per CPU second say what the work costs, wall seconds what this
machine had to spare. Start-up and memory are measured in processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lagotto._internal.concurrency import available_cpus
from lagotto.embedders.onnx import (
    CONFIG,
    INT8_CONFIG,
    OnnxEmbedder,
    minilm_files,
    minilm_int8_files,
)
from synthetic import WORDS

BATCH_TOKENS = (1, 128, 512, 4096)


@dataclass(frozen=True, slots=True)
class Variant:
    """An embedder under one setting."""

    model: str
    threads: int
    batch_tokens: int

    def create(self) -> OnnxEmbedder:
        files, config = (
            (minilm_files, CONFIG) if self.model == "minilm" else (minilm_int8_files, INT8_CONFIG)
        )
        config = config.model_copy(update={"batch_tokens": self.batch_tokens})
        return OnnxEmbedder(files(), config=config, threads=self.threads)


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians over the rounds."""

    variant: Variant
    passages_per_cpu_second: float
    passages_per_second: float
    queries_per_cpu_second: float
    query_milliseconds: float


@dataclass(frozen=True, slots=True)
class Start:
    """A fresh process that embeds one query: seconds to load, and memory before and after."""

    model: str
    load_seconds: float
    megabytes_before: float
    megabytes_after: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passages", type=int, default=96)
    parser.add_argument("--start", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        print(json.dumps(asdict(asyncio.run(measure_start(options.start)))))
        return
    speeds = asyncio.run(measure_speed(rounds=options.rounds, passages=options.passages))
    starts = [_fresh_start(model) for model in ("minilm", "minilm-int8")]
    _print_tables(speeds, starts)


async def measure_speed(*, rounds: int, passages: int) -> list[Speed]:
    """All variants, interleaved."""
    threads = sorted({1, available_cpus()})
    variants = [
        Variant(model, count, tokens)
        for model in ("minilm", "minilm-int8")
        for count in threads
        for tokens in BATCH_TOKENS
    ]
    texts = list(make_texts(passages, words=100))
    queries = list(make_texts(passages, words=8))
    samples: dict[Variant, list[tuple[float, ...]]] = {variant: [] for variant in variants}
    embedders = {variant: variant.create() for variant in variants}
    for embedder in embedders.values():
        await embedder.embed(texts[:2], role="document")
    for _ in range(rounds):
        for variant, embedder in embedders.items():
            samples[variant].append(await _sample(embedder, texts, queries))
    for embedder in embedders.values():
        await embedder.close()
    return [_medians(variant, samples[variant]) for variant in variants]


def make_texts(count: int, *, words: int) -> Iterator[str]:
    """English-looking texts of about that many words, the same on every run."""
    source = random.Random(20)
    for _ in range(count):
        length = max(3, round(source.gauss(words, words / 3)))
        yield " ".join(source.choices(WORDS, k=length)).capitalize() + "."


async def _sample(
    embedder: OnnxEmbedder, texts: list[str], queries: list[str]
) -> tuple[float, ...]:
    wall, cpu = time.perf_counter(), time.process_time()
    await embedder.embed(texts, role="document")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    short = time.process_time()
    await embedder.embed(queries, role="query")
    short = time.process_time() - short
    latencies = []
    for query in queries[:20]:
        start = time.perf_counter()
        await embedder.embed([query], role="query")
        latencies.append(time.perf_counter() - start)
    count = len(texts)
    return count / cpu, count / wall, len(queries) / short, statistics.median(latencies) * 1000


def _medians(variant: Variant, samples: list[tuple[float, ...]]) -> Speed:
    return Speed(
        variant, *(round(statistics.median(values), 1) for values in zip(*samples, strict=True))
    )


async def measure_start(model: str) -> Start:
    """Load one model and embed one query, in this process."""
    before = _megabytes()
    start = time.perf_counter()
    embedder = Variant(model, available_cpus(), 128).create()
    await embedder.embed(["Who bred the truffle dog?"], role="query")
    seconds = time.perf_counter() - start
    after = _megabytes()
    await embedder.close()
    return Start(model, round(seconds, 2), before, after)


def _fresh_start(model: str) -> Start:
    command = [sys.executable, str(Path(__file__).parent), "embed", "--start", model]
    runs = [
        Start(**json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        for _ in range(3)
    ]
    return sorted(runs, key=lambda run: run.load_seconds)[1]


def _megabytes() -> float:
    """Resident memory of this process; 0 where there is no /proc."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def _print_tables(speeds: list[Speed], starts: list[Start]) -> None:
    print("| model | threads | batch tokens | passages / CPU s | passages / s | "
          "queries / CPU s | one query, ms |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for item in speeds:
        print(
            f"| {item.variant.model} | {item.variant.threads} | {item.variant.batch_tokens} | "
            f"{item.passages_per_cpu_second} | {item.passages_per_second} | "
            f"{item.queries_per_cpu_second} | {item.query_milliseconds} |"
        )
    print("\n| model | load, s | memory before, MB | after, MB |\n| --- | --- | --- | --- |")
    for start in starts:
        print(f"| {start.model} | {start.load_seconds} | {start.megabytes_before:.0f} | "
              f"{start.megabytes_after:.0f} |")  # fmt: skip
