"""How often a context pack holds the answer, by its budget and by what goes around the hits.

    python benchmarks/packs.py DATASET [--queries 1000] [--budgets 500,1000,2000]
                               [--chunkers NAME...] [--cache FOLDER]

DATASET is a folder in BEIR's layout with `answers.jsonl`: for a query the strings that answer it.
A pack counts if one of them stands in it, whatever the case and the white space.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from beir import read_jsonl
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.context import TokenCounter, build_pack, token_counter
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder
from lagotto.prefs import ContextPrefs
from lagotto.readers import Columns

NOTHING = {"neighbor_same_page": 0, "neighbor_cross_page": 0, "include_parents": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "hits alone": NOTHING,
    "no neighbours": {"neighbor_same_page": 0, "neighbor_cross_page": 0},
    "no parents": {"include_parents": False},
    "two neighbours": {"neighbor_same_page": 2},
}
TOP_K = (10, 20)
CHUNKERS = ("recursive:256/32", "parent-child:512/128/16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--budgets", default="500,1000,2000")
    parser.add_argument("--chunkers", nargs="+", default=CHUNKERS)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    for chunker in options.chunkers:
        asyncio.run(measure(chunker, options))


async def measure(chunker: str, options: argparse.Namespace) -> None:
    budgets = [int(number) for number in options.budgets.split(",")]
    answers = read_answers(options.dataset / "answers.jsonl")
    rows = [row for row in read_jsonl(options.dataset / "queries.jsonl") if row["_id"] in answers]
    queries = random.Random(0).sample(rows, min(options.queries, len(rows)))
    embedder: Embedder = create_embedder("minilm")
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    print(f"\n{chunker:29}" + "".join(f"{budget:>8}" for budget in budgets))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "kb.db"
        async with AsyncKnowledgeBase(place, embedder=embedder, chunker=chunker) as base:
            await base.add(options.dataset / "corpus.jsonl", columns=Columns(id="_id"))
            for top_k in TOP_K:
                counter = token_counter(embedder.tokenizer)
                held = await _held(base, queries, answers, top_k, budgets, counter)
                for name, shares in held.items():
                    print(f"{name:20}{top_k:4} hits" + "".join(f"{share:8.3f}" for share in shares))


def read_answers(path: Path) -> dict[str, list[str]]:
    """For each query the strings that answer it."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["query_id"]: [_plain(item["text"]) for item in row["answers"]] for row in rows}


async def _held(
    base: AsyncKnowledgeBase,
    queries: list[dict[str, str]],
    answers: dict[str, list[str]],
    top_k: int,
    budgets: list[int],
    count: TokenCounter,
) -> dict[str, list[float]]:
    """For each variant the share of packs with an answer in them, by budget."""
    held: dict[str, list[list[bool]]] = {name: [[] for _ in budgets] for name in VARIANTS}
    for row in queries:
        hits = await base.retrieve(row["text"], top_k=top_k)
        names = {(hit.document_id, hit.collection) for hit in hits}
        read = [await base.chunks(name, collection=collection) for name, collection in names]
        chunks = [chunk for some in read for chunk in some]
        for name, settings in VARIANTS.items():
            for place, budget in enumerate(budgets):
                pack = await build_pack(
                    row["text"],
                    results=hits,
                    chunks=chunks,
                    count=count,
                    prefs=ContextPrefs(max_tokens=budget, **settings),
                )
                text = _plain(pack.context_pack)
                found = any(answer in text for answer in answers[row["_id"]])
                held[name][place].append(found)
    return {name: [float(np.mean(each)) for each in lists] for name, lists in held.items()}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


if __name__ == "__main__":
    main()
