"""How well an embedder ranks by itself: exact nearest neighbours, nDCG@10 and recall@100.

    python benchmarks/dense.py DATASET... [--embedder minilm] [--cache FOLDER] [--json]

A data set is a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels.tsv. With `--cache`
vectors are kept, so that a second run only takes seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lagotto.documents import Vectors
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder

Judgements = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Quality:
    """One embedder on one data set; seconds are those of embedding."""

    dataset: str
    model_id: str
    documents: int
    queries: int
    ndcg_10: float
    recall_100: float
    seconds: float
    cpu_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for dataset in options.datasets:
        embedder = create_embedder(options.embedder)
        if options.cache:
            embedder = CachedEmbedder(embedder, options.cache)
        quality = asyncio.run(measure(dataset, embedder))
        print(json.dumps(asdict(quality)) if options.json else _line(quality))


async def measure(dataset: Path, embedder: Embedder) -> Quality:
    """Embed everything, rank every judged query's documents, and average."""
    corpus = _read_jsonl(dataset / "corpus.jsonl")
    texts = [f"{row.get('title', '')} {row['text']}".strip() for row in corpus]
    ids = np.array([row["_id"] for row in corpus])
    judged = _read_judgements(dataset / "qrels.tsv")
    queries = [row for row in _read_jsonl(dataset / "queries.jsonl") if row["_id"] in judged]
    wall, cpu = time.perf_counter(), time.process_time()
    documents = await embedder.embed(texts, role="document")
    asked = await embedder.embed([row["text"] for row in queries], role="query")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await embedder.close()
    rankings = [ids[row].tolist() for row in nearest(asked, documents, count=100)]
    judgements = [judged[row["_id"]] for row in queries]
    return Quality(
        dataset=dataset.name,
        model_id=embedder.info.model_id,
        documents=len(corpus),
        queries=len(queries),
        ndcg_10=_mean([ndcg(*pair, depth=10) for pair in zip(rankings, judgements, strict=True)]),
        recall_100=_mean([recall(*pair) for pair in zip(rankings, judgements, strict=True)]),
        seconds=round(wall, 1),
        cpu_seconds=round(cpu, 1),
    )


def nearest(queries: Vectors, documents: Vectors, *, count: int) -> list[np.ndarray]:
    """For each query the rows of its nearest documents, nearest first, ties by row."""
    return [np.argsort(-(documents @ query), kind="stable")[:count] for query in queries]


def ndcg(ranking: list[str], judged: dict[str, int], *, depth: int) -> float:
    """Normalised discounted cumulative gain with linear gains, as trec_eval has it."""
    gains = [judged.get(name, 0) for name in ranking[:depth]]
    best = sorted((gain for gain in judged.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(best)


def recall(ranking: list[str], judged: dict[str, int]) -> float:
    """How much of what is relevant was found."""
    relevant = {name for name, gain in judged.items() if gain > 0}
    return len(relevant & set(ranking)) / len(relevant)


def _discounted(gains: list[int]) -> float:
    return float(sum(gain / np.log2(place + 2) for place, gain in enumerate(gains)))


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 4)


def _read_jsonl(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _read_judgements(path: Path) -> Judgements:
    """Queries that have at least one relevant document."""
    judged: Judgements = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            judged.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return {query: gains for query, gains in judged.items() if max(gains.values()) > 0}


def _line(quality: Quality) -> str:
    return (
        f"{quality.dataset}  {quality.model_id}  {quality.documents} documents, "
        f"{quality.queries} queries  nDCG@10 {quality.ndcg_10:.4f}  "
        f"recall@100 {quality.recall_100:.4f}  {quality.seconds} s ({quality.cpu_seconds} CPU)"
    )


if __name__ == "__main__":
    main()
