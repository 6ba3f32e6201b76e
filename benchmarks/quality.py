"""How well a knowledge base ranks: each leg by itself, and all together.

    python benchmarks/quality.py DATASET... [--queries 1000] [--misspell] [--variants]
                                 [--store sqlite|postgresql] [--cache FOLDER] [--json]

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
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from beir import Judgements, mean, ndcg, read_questions, recall
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.embedders import CachedEmbedder, create_embedder
from lagotto.evals import evaluation
from lagotto.readers import Columns
from lagotto.terms import keywords
from places import PLACES, temporary_place

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
Table = dict[str, dict[str, Any]]
Rankings = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--misspell", action="store_true")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--store", choices=PLACES, default="sqlite")
    options = parser.parse_args()
    tables = {}
    for dataset in options.datasets:
        tables[dataset.name] = asyncio.run(measure(dataset, options))
        if not options.json:
            _print(dataset.name, tables[dataset.name])
    if options.json:
        print(json.dumps(tables, indent=2))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is measured with, and on what."""
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--chunker", default=DEFAULT_CHUNKER)
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", action="store_true")


async def measure(dataset: Path, options: argparse.Namespace) -> Table:
    """The table of one data set."""
    asked, judged = read_questions(dataset, options.queries)
    if options.misspell:
        chance = random.Random(1)
        asked = {name: misspelt(text, chance) for name, text in asked.items()}
    systems = SYSTEMS | (VARIANTS if options.variants else {})
    async with filled(options.store, dataset, options, text_index=options.text_index) as base:
        rankings = {
            system: await rank(base, asked, settings) for system, settings in systems.items()
        }
    gains = {system: gains_of(found, judged) for system, found in rankings.items()}
    table: Table = {
        system: {"ndcg@10": mean(gains[system]), "recall@100": mean(_recalls(found, judged))}
        for system, found in rankings.items()
    }
    if options.variants:
        for system, found in gains.items():
            table[system]["minus hybrid"] = interval(np.subtract(found, gains["hybrid"]))
    return table


@asynccontextmanager
async def filled(
    store: str, dataset: Path, options: argparse.Namespace, *, text_index: str | None = None
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with the documents of a data set, opened anew, by when all its indexes are built."""

    def base() -> AsyncKnowledgeBase:
        embedder = create_embedder(options.embedder)
        return AsyncKnowledgeBase(
            place.location,
            embedder=CachedEmbedder(embedder, options.cache) if options.cache else embedder,
            chunker=options.chunker,
            **(place.indexes or {"text_index": text_index}),
        )

    with temporary_place(store) as place:
        async with base() as new:
            await new.add(dataset / "corpus.jsonl", columns=Columns(id="_id"))
        async with base() as complete:
            yield complete


async def rank(base: AsyncKnowledgeBase, asked: dict[str, str], settings: Settings) -> Rankings:
    """The best documents for each query, by their best chunks."""
    rankings = {}
    for name, text in asked.items():
        hits = await base.retrieve(text, top_k=CHUNKS, **settings)
        rankings[name] = list(dict.fromkeys(hit.document_id for hit in hits))[:100]
    return rankings


def gains_of(rankings: Rankings, judged: Judgements) -> list[float]:
    """nDCG@10 of each query."""
    return [ndcg(ranking, judged[name], depth=10) for name, ranking in rankings.items()]


def _recalls(rankings: Rankings, judged: Judgements) -> list[float]:
    return [recall(ranking, judged[name], depth=100) for name, ranking in rankings.items()]


def interval(differences: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """The mean difference between its bounds, by paired bootstrap."""
    mean, low, high = evaluation.interval(differences.tolist())
    return [round(value, 4) for value in (low, mean, high)]


def misspelt(query: str, chance: random.Random) -> str:
    """One or two random edits in each content word."""
    content = set(keywords(query, ["en"]))
    return " ".join(
        _edited(word, chance) if word.strip(string.punctuation).lower() in content else word
        for word in query.split()
    )


def _edited(word: str, chance: random.Random) -> str:
    for _ in range(chance.choice([1, 2])):
        offset = chance.randrange(len(word))
        letter = chance.choice(string.ascii_lowercase)
        edits: Iterable[str] = (
            word[:offset] + word[offset + 1 :],
            word[:offset] + letter + word[offset:],
            word[:offset] + letter + word[offset + 1 :],
            word[:offset] + word[offset : offset + 2][::-1] + word[offset + 2 :],
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
