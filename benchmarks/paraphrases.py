"""How questions that share no content word with their answers rank, with and without damping.

    python benchmarks paraphrases [DATASET...] [--cache FOLDER]

The questions are in paraphrases.jsonl; they were written before any of them was searched for. Those
over the demo's documents name a file and words of the passage that answers, those over a data set
(a folder in BEIR's layout, by whose name they are listed) the id of a document. A question that
shares a content word with its answer is an error. The figures are the mean reciprocal rank of the
document among the first ten, the share of questions for which it is first, and, of those questions
for which vectors alone find it among the first twenty, the share for which the system does.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import beir
from beir import interval, mean, read_jsonl, shown
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.demo import corpus
from lagotto.documents import Document
from lagotto.embedders import Embedder
from lagotto.readers import Columns
from lagotto.terms import analyze, content_terms, query_terms

QUESTIONS = Path(__file__).with_name("paraphrases.jsonl")
SYSTEMS: dict[str, dict[str, Any]] = {
    "semantic": {"mode": "semantic"},
    "text": {"mode": "keyword"},
    "hybrid, not damped": {"scoring": {"adapt": False}},
    "hybrid": {},
}
DEPTH, FOUND = 10, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    embedder = beir.embedder("minilm", options.cache)
    with corpus() as folder, tempfile.TemporaryDirectory() as place:
        sources = {"demo": folder}
        sources |= {dataset.name: dataset / "corpus.jsonl" for dataset in options.datasets}
        for name, source in sources.items():
            location = Path(place) / f"{name}.db"
            _print(name, asyncio.run(measure(name, source, location, embedder)))


async def measure(
    name: str, source: Path, location: Path, embedder: Embedder
) -> dict[str, dict[str, Any]]:
    """The table of one set."""
    asked = [row for row in read_jsonl(QUESTIONS) if row["set"] == name]
    async with AsyncKnowledgeBase(location, embedder=embedder) as base:
        await base.add(source, columns=Columns(id=None if name == "demo" else "_id"))
        for row in asked:
            shared = await shared_words(base, row)
            if shared:
                raise SystemExit(f"{row['question']!r} shares {shared} with its answer")
        ranks = {
            system: [await rank(base, row, settings) for row in asked]
            for system, settings in SYSTEMS.items()
        }
    plain = _reciprocal(ranks["hybrid, not damped"])
    by_vectors = [index for index, found in enumerate(ranks["semantic"]) if found <= FOUND]
    return {
        system: {
            "mrr@10": mean(_reciprocal(found)),
            "first": mean([float(value == 1) for value in found]),
            "of vectors' in 20": mean([float(found[index] <= FOUND) for index in by_vectors]),
            "minus not damped": interval(_reciprocal(found), plain),
        }
        for system, found in ranks.items()
    }


def _reciprocal(ranks: Iterable[float]) -> list[float]:
    return [1 / value if value <= DEPTH else 0.0 for value in ranks]


async def shared_words(base: AsyncKnowledgeBase, row: Mapping[str, str]) -> list[str]:
    """The content words that a question shares with the chunks that answer it."""
    document = await _document(base, row["document"])
    passage = " ".join(row.get("passage", "").split())
    texts = [
        chunk.in_context(document.title)
        for chunk in await base.chunks(document.id, collection=document.collection)
        if passage in " ".join(chunk.text.split())
    ]
    if not texts:
        raise SystemExit(f"{row['document']} has no passage {passage!r}")
    held = {term for text in texts for term in analyze(text, "en")}
    words = content_terms(query_terms(row["question"], ["en"]))
    return [word.word for word in words if held.intersection(word.variants)]


async def rank(base: AsyncKnowledgeBase, row: Mapping[str, str], settings: dict[str, Any]) -> float:
    """The rank of the document, infinite if it is not found."""
    hits = await base.retrieve(row["question"], top_k=5 * FOUND, **settings)
    names = list(dict.fromkeys(_name(hit.document_id, hit.document_source) for hit in hits))
    return 1 + names.index(row["document"]) if row["document"] in names else math.inf


async def _document(base: AsyncKnowledgeBase, name: str) -> Document:
    found: Iterable[Document] = await base.documents()
    return next(item for item in found if _name(item.id, item.source) == name)


def _name(document_id: str, source: str) -> str:
    """The file name of a document of the demo, the id of one of a data set."""
    path = PurePosixPath(source)
    return document_id if path.suffix == ".jsonl" else path.name


def _print(name: str, table: dict[str, dict[str, Any]]) -> None:
    print(f"\n{name:20} {'MRR@10':>8} {'first':>8} {'in 20':>8}   minus not damped")
    for system, row in table.items():
        difference = shown(row["minus not damped"])
        figures = [row["mrr@10"], row["first"], row["of vectors' in 20"]]
        shares = " ".join(f"{figure:8.4f}" for figure in figures)
        print(f"{system:20} {shares}   {difference}", flush=True)
