"""How well a knowledge base ranks: each leg by itself, and all together.

    python benchmarks/quality.py DATASET... [--queries 1000] [--misspell] [--variants]
                                 [--cache FOLDER] [--json]

A data set is a folder in BEIR's layout. Its documents go through the normal ingest; a document
ranks by its best chunk. Of a set with more queries a fixed sample is taken. `--misspell` makes one
or two random edits in every content word of the queries, and shows hybrid with and without the
fuzzy leg. `--variants` adds other settings and how their nDCG@10 differs from that of hybrid, with
a paired bootstrap interval of 95 %. `--cache` keeps vectors for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import string
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from beir import mean, ndcg, read_jsonl, read_judgements, recall
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder
from lagotto.knowledge import AsyncKnowledgeBase
from lagotto.readers import Columns
from lagotto.terms import keywords

Settings = dict[str, Any]

SYSTEMS: dict[str, Settings] = {
    "text": {"mode": "keyword", "fuzzy": {"mode": "off"}, "scoring": {"w_exact": 0}},
    "semantic": {"mode": "semantic"},
    "fuzzy": {"mode": "keyword", "scoring": {"w_text": 0, "w_exact": 0}},
    "hybrid": {"mode": "hybrid"},
    "hybrid without fuzzy": {"mode": "hybrid", "fuzzy": {"mode": "off"}},
    "rrf": {"mode": "hybrid", "scoring": {"blend": "rrf"}},
}
VARIANTS: dict[str, Settings] = {
    "without exact wording": {"scoring": {"w_exact": 0}},
    "answer patterns": {"expansion": {"answers": True}},
    "feedback": {"expansion": {"feedback": True}},
    "minmax": {"scoring": {"normalize": "minmax"}},
    "zscore": {"scoring": {"normalize": "zscore"}},
    "sigmoid": {"scoring": {"normalize": "sigmoid"}},
    "theoretical": {"scoring": {"normalize": "theoretical"}},
    "without fill": {"scoring": {"fill": False}},
    "questions by words": {"scoring": {"by_type": {"question": {"w_text": 1.0}}}},
    "keywords by words": {"scoring": {"by_type": {"keywords": {"w_text": 1.0}}}},
    "descriptions by meaning": {"scoring": {"by_type": {"description": {"w_text": 0.25}}}},
}
CHUNKS = 120
RESAMPLED = 2000
Table = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--misspell", action="store_true")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--chunker", default="recursive:256/32")
    parser.add_argument("--text-index")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tables = {}
    for dataset in options.datasets:
        tables[dataset.name] = asyncio.run(measure(dataset, options))
        if not options.json:
            _print(dataset.name, tables[dataset.name])
    if options.json:
        print(json.dumps(tables, indent=2))


async def measure(dataset: Path, options: argparse.Namespace) -> Table:
    """The table of one data set."""
    embedder: Embedder = create_embedder(options.embedder)
    if options.cache:
        embedder = CachedEmbedder(embedder, options.cache)
    judged = read_judgements(dataset / "qrels.tsv")
    queries = [row for row in read_jsonl(dataset / "queries.jsonl") if row["_id"] in judged]
    if len(queries) > options.queries:
        queries = random.Random(0).sample(queries, options.queries)
    asked = {row["_id"]: row["text"] for row in queries}
    if options.misspell:
        chance = random.Random(1)
        asked = {name: misspelt(text, chance) for name, text in asked.items()}
    with tempfile.TemporaryDirectory() as folder:
        base = AsyncKnowledgeBase(
            Path(folder) / "kb.db",
            embedder=embedder,
            chunker=options.chunker,
            text_index=options.text_index,
        )
        async with base:
            await base.add(dataset / "corpus.jsonl", columns=Columns(id="_id"))
            systems = SYSTEMS | (VARIANTS if options.variants else {})
            gains = {
                system: await _gains(base, asked, judged, settings)
                for system, settings in systems.items()
            }
    table = {system: _summary(*found) for system, found in gains.items()}
    if options.variants:
        for system, (found, _) in gains.items():
            table[system]["minus hybrid"] = interval(np.subtract(found, gains["hybrid"][0]))
    return table


def _summary(gains: list[float], recalls: list[float]) -> dict[str, Any]:
    return {"ndcg@10": mean(gains), "recall@100": mean(recalls)}


def interval(differences: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """The mean difference between its bounds, by paired bootstrap."""
    chance = np.random.default_rng(0)
    drawn = chance.integers(len(differences), size=(RESAMPLED, len(differences)))
    low, high = np.percentile(differences[drawn].mean(axis=1), [2.5, 97.5])
    return [round(float(value), 4) for value in (low, differences.mean(), high)]


async def _gains(
    base: AsyncKnowledgeBase,
    asked: dict[str, str],
    judged: dict[str, dict[str, int]],
    settings: Settings,
) -> tuple[list[float], list[float]]:
    """nDCG@10 and recall@100 of each query."""
    gains, recalls = [], []
    for name, text in asked.items():
        hits = await base.retrieve(text, top_k=CHUNKS, **settings)
        ranking = list(dict.fromkeys(hit.document_id for hit in hits))[:100]
        gains.append(ndcg(ranking, judged[name], depth=10))
        recalls.append(recall(ranking, judged[name]))
    return gains, recalls


def misspelt(query: str, chance: random.Random) -> str:
    """One or two random edits in each content word."""
    content = set(keywords(query, ["en"]))
    return " ".join(
        _edited(word, chance) if word.strip(string.punctuation).lower() in content else word
        for word in query.split()
    )


def _edited(word: str, chance: random.Random) -> str:
    for _ in range(chance.choice([1, 2])):
        place = chance.randrange(len(word))
        letter = chance.choice(string.ascii_lowercase)
        edits: Iterable[str] = (
            word[:place] + word[place + 1 :],
            word[:place] + letter + word[place:],
            word[:place] + letter + word[place + 1 :],
            word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
        )
        word = chance.choice(list(edits)) or word
    return word


def _print(name: str, table: Table) -> None:
    print(f"\n{name:24} {'nDCG@10':>8} {'R@100':>8}   minus hybrid")
    for system, row in table.items():
        low, middle, high = row.get("minus hybrid", (0, 0, 0))
        difference = f"{middle:+.4f} [{low:+.4f}, {high:+.4f}]" if high or low else ""
        print(
            f"{system:24} {row['ndcg@10']:8.4f} {row['recall@100']:8.4f}   {difference}", flush=True
        )


if __name__ == "__main__":
    main()
