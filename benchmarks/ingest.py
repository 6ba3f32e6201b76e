"""How much of the embedder's speed an ingest keeps, and how much memory it takes.

    python benchmarks ingest [--chunks 400] [--rounds 3] [--memory 10000,100000]

Rate: the same chunks are embedded by the embedder alone, and added to a new base; rounds are
interleaved, medians reported. Memory: the peak of a process of its own that adds that many chunks,
with an embedder that costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER
from lagotto.documents import Document
from lagotto.embedders import Embedder, create_embedder
from lagotto.testing.hash_embedder import HashEmbedder
from synthetic import WORDS

CHUNKS_PER_DOCUMENT = 5


def documents(chunks: int) -> Iterator[Document]:
    """Documents of about five chunks each, the same ones every time."""
    chance = random.Random(0)
    for number in range(chunks // CHUNKS_PER_DOCUMENT):
        words = " ".join(chance.choices(WORDS, k=190 * CHUNKS_PER_DOCUMENT))
        yield Document(id=str(number), title=f"Number {number}", text=words, language="en")


async def alone(embedder: Embedder, chunks: int) -> float:
    """Chunks per second, without anything around it."""
    chunker = CHUNKERS.create(DEFAULT_CHUNKER, tokenizer=embedder.tokenizer)
    texts = [
        chunk.in_context(document.title)
        for document in documents(chunks)
        for chunk in chunker.chunk(document)
    ]
    start = time.perf_counter()
    await embedder.embed(texts, role="document")
    return len(texts) / (time.perf_counter() - start)


async def ingested(embedder: Embedder, chunks: int) -> float:
    """Chunks per second, all the way into a base and ready to be searched."""
    with tempfile.TemporaryDirectory() as folder:
        base = AsyncKnowledgeBase(Path(folder) / "kb.db", embedder=embedder)
        await base.open()
        start = time.perf_counter()
        report = await base.add(*documents(chunks))
        await base.retrieve("anything")
        seconds = time.perf_counter() - start
        await base.close()
    return report.chunks / seconds


async def rates(chunks: int, rounds: int, name: str) -> dict[str, float]:
    """Medians of both, and their ratio."""
    embedder = create_embedder(name)
    await embedder.embed(["warm up"], role="document")
    found: dict[str, list[float]] = {"alone": [], "ingest": []}
    for _ in range(rounds):
        found["alone"].append(await alone(embedder, chunks))
        found["ingest"].append(await ingested(embedder, chunks))
    pairs = zip(found["ingest"], found["alone"], strict=True)
    table = {f"{key}, chunks/s": round(statistics.median(row), 1) for key, row in found.items()}
    return {**table, "ratio": round(statistics.median(one / two for one, two in pairs), 3)}


async def peak_memory(chunks: int) -> None:
    """Add that many chunks and print the peak memory of this process, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for document in documents(chunks):
                file.write(json.dumps({"id": document.id, "text": document.text}) + "\n")
        base = AsyncKnowledgeBase(Path(folder) / "kb.db", embedder=HashEmbedder(dimension=384))
        async with base:
            report = await base.add(path, language="en")
            added = _peak()
            await base.retrieve("anything")
        print(json.dumps({"chunks": report.chunks, "adding": added, "first search": _peak()}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--memory", default="10000,100000")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        asyncio.run(peak_memory(options.peak))
        return
    memory = [  # first, since a process counts the peak of the one that started it
        json.loads(
            subprocess.check_output(
                [sys.executable, Path(__file__).parent, "ingest", "--peak", size]
            )
        )
        for size in options.memory.split(",")
        if size
    ]
    rate = asyncio.run(rates(options.chunks, options.rounds, options.embedder))
    print(*(f"{key}: {value}" for key, value in rate.items()), sep="\n")
    for row in memory:
        print(
            f"{row['chunks']} chunks: peak {row['adding']} MB while adding, "
            f"{row['first search']} MB with the first search, which makes the indexes"
        )
