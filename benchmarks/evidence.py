"""How much of the evidence a search brings, and how late chunking compares with stored chunks.

    python benchmarks evidence FOLDER [--queries 472] [--documents NAME,NAME] [--only WORD]
                                  [--cache FOLDER]

FOLDER has corpus.jsonl, queries.jsonl and spans.jsonl, where a query's evidence is spans of one
document. Each way of chunking ranks its chunks, which are taken in that order until a budget of
tokens is full; the last one is cut. Recall, precision and intersection over union are counted in
characters. `with headings` reads lines such as ` = = Plot = = ` as headings, which are then put in
front of their chunks for embedding and indexing. `--documents` takes some of the documents, with
their queries; `--only` the ways with that word in their name; `--cache` keeps vectors for the next
run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import beir
from beir import mean, read_jsonl
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Heading
from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.prefs import ChunkingPrefs, RetrievalPrefs

BUDGETS = (256, 512, 1024)
DEPTH = 40
SIZES = ("64/8", "128/16", "256/32")


class Passage(NamedTuple):
    """A ranked chunk."""

    document_id: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True)
class System:
    """A base, and how it is asked; `late` is the chunker of chunks made at query time."""

    chunker: str
    late: str | None = None
    strategy: str = "precomputed"
    pooling: Pooling = "chunk"
    headings: bool = False

    @property
    def prefs(self) -> RetrievalPrefs:
        chunking = ChunkingPrefs.model_validate(
            {"strategy": self.strategy, "chunker_id": self.late}
        )
        return RetrievalPrefs(
            top_k_chunks=DEPTH, per_item_chunk_cap=DEPTH, top_k=DEPTH, chunking=chunking
        )


def systems() -> dict[str, System]:
    """Everything that is compared, by name."""
    found = {}
    for size in SIZES:
        chunker = f"recursive:{size}"
        found[f"precomputed {chunker}"] = System(chunker)
        found[f"with headings {chunker}"] = System(chunker, headings=True)
        found[f"late {chunker}"] = System("document", chunker, "late")
        found[f"mixed {chunker}"] = System("recursive:256/32", chunker, "mixed")
        found[f"late pooling {chunker}"] = System(chunker, pooling="late")
    for sizes in ("256/64/8", "512/128/16"):
        found[f"parent-child:{sizes}"] = System(f"parent-child:{sizes}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=472)
    parser.add_argument("--documents", type=lambda names: names.split(","))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--embedder", default="minilm")
    options = parser.parse_args()
    table = asyncio.run(measure(options))
    for name, row in table.items():
        print(f"{name:32}", *(f"{key} {value:.3f}" for key, value in row.items()), sep="  ")


def documents(options: argparse.Namespace, *, headings: bool = False) -> list[Document]:
    """The documents that are asked for."""
    return [
        Document(
            id=row["_id"],
            title=row["title"],
            text=row["text"],
            language="en",
            headings=tuple(wiki_headings(row["text"])) if headings else (),
        )
        for row in read_jsonl(options.folder / "corpus.jsonl")
        if not options.documents or row["_id"] in options.documents
    ]


def wiki_headings(text: str) -> Iterator[Heading]:
    """The sections of a text in wiki markup."""
    found = [
        (match.start(), match[1].count("="), match[2])
        for match in re.finditer(r"^ ((?:= )+)(.+?) (?:= ?)+$", text, re.MULTILINE)
    ]
    for number, (start, level, title) in enumerate(found, 1):
        later = (place for place, other, _ in found[number:] if other <= level)
        yield Heading(start=start, end=next(later, len(text)), level=level, title=title)


async def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """A row of figures for each system."""
    names = {document.id for document in documents(options)}
    rows: list[dict[str, Any]] = list(read_jsonl(options.folder / "spans.jsonl"))
    rows = [row for row in rows if row["corpus_id"] in names]
    if len(rows) > options.queries:
        rows = random.Random(0).sample(rows, options.queries)
    asked = {row["_id"]: row["text"] for row in read_jsonl(options.folder / "queries.jsonl")}
    table: dict[str, dict[str, float]] = {}
    for name, system in systems().items():
        if options.only in name:
            table[name] = await quality(options, system, rows, asked)
    return table


async def quality(
    options: argparse.Namespace,
    system: System,
    rows: Sequence[dict[str, Any]],
    asked: dict[str, str],
) -> dict[str, float]:
    """Means over all queries."""
    cache = options.cache if system.pooling == "chunk" else None
    embedder = beir.embedder(options.embedder, cache)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with base(folder, system, embedder) as opened:
            await opened.add(*documents(options, headings=system.headings))
            for row in rows:
                ranked = await passages(opened, system, asked[row["query_id"]])
                truth = {(row["corpus_id"], at) for span in row["spans"] for at in _range(span)}
                for budget in BUDGETS:
                    for key, value in scores(within(ranked, budget), truth).items():
                        found.setdefault(f"{key}@{budget}", []).append(value)
    return {key: mean(values) for key, values in found.items()}


def base(folder: str, system: System, embedder: Embedder) -> AsyncKnowledgeBase:
    return AsyncKnowledgeBase(
        Path(folder) / "kb.db", embedder=embedder, chunker=system.chunker, pooling=system.pooling
    )


async def passages(opened: AsyncKnowledgeBase, system: System, query: str) -> list[Passage]:
    """The ranked chunks; parents in place of children where there are any."""
    if system.chunker.startswith("parent-child"):
        hits = await opened.retrieve(query, prefs=system.prefs)
        tokens = opened.embedder.tokenizer.count([hit.content for hit in hits])
        return [
            Passage(hit.document_id, hit.start, hit.end, count)
            for hit, count in zip(hits, tokens, strict=True)
        ]
    bundle = await opened.search(query, prefs=system.prefs)
    return [
        Passage(item.item_id, item.start_idx or 0, item.end_idx or 0, item.token_count or 1)
        for item in bundle.evidence
    ]


def within(ranked: Iterable[Passage], budget: int) -> list[Passage]:
    """The first passages of that many tokens; the last is cut to what is left."""
    kept = []
    for passage in ranked:
        if budget <= 0:
            break
        share = min(1.0, budget / max(passage.tokens, 1))
        end = passage.start + round((passage.end - passage.start) * share)
        kept.append(passage._replace(end=end))
        budget -= passage.tokens
    return kept


def scores(passages: Iterable[Passage], truth: set[tuple[str, int]]) -> dict[str, float]:
    """Recall, precision and intersection over union, in characters."""
    given = {(item.document_id, at) for item in passages for at in range(item.start, item.end)}
    both = len(given & truth)
    return {
        "recall": both / len(truth),
        "precision": both / max(len(given), 1),
        "IoU": both / len(given | truth),
    }


def _range(span: dict[str, int]) -> range:
    return range(span["start"], span["end"])
