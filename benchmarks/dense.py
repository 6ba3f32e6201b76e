"""How well an embedder ranks by itself: exact nearest neighbours, nDCG@10 and recall@100.

    python benchmarks/dense.py DATASET... [--embedder minilm] [--cache FOLDER] [--json]

A data set is a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels.tsv. With `--cache`
vectors are kept, so that a second run only takes seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from beir import mean, ndcg, read_jsonl, read_judgements, recall
from lagotto.documents import Vectors
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder


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
    corpus = read_jsonl(dataset / "corpus.jsonl")
    texts = [f"{row.get('title', '')} {row['text']}".strip() for row in corpus]
    ids = np.array([row["_id"] for row in corpus])
    judged = read_judgements(dataset / "qrels.tsv")
    queries = [row for row in read_jsonl(dataset / "queries.jsonl") if row["_id"] in judged]
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
        ndcg_10=mean([ndcg(*pair, depth=10) for pair in zip(rankings, judgements, strict=True)]),
        recall_100=mean(
            [recall(*pair, depth=100) for pair in zip(rankings, judgements, strict=True)]
        ),
        seconds=round(wall, 1),
        cpu_seconds=round(cpu, 1),
    )


def nearest(queries: Vectors, documents: Vectors, *, count: int) -> list[np.ndarray]:
    """For each query the rows of its nearest documents, nearest first, ties by row."""
    return [np.argsort(-(documents @ query), kind="stable")[:count] for query in queries]


def _line(quality: Quality) -> str:
    return (
        f"{quality.dataset}  {quality.model_id}  {quality.documents} documents, "
        f"{quality.queries} queries  nDCG@10 {quality.ndcg_10:.4f}  "
        f"recall@100 {quality.recall_100:.4f}  {quality.seconds} s ({quality.cpu_seconds} CPU)"
    )


if __name__ == "__main__":
    main()
