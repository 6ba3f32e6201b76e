"""How well a knowledge base ranks: each leg by itself and all together, on any store and embedder.

    python benchmarks quality DATASET... [--queries 1000] [--misspell] [--variants]
    python benchmarks quality DATASET... --stores sqlite,postgresql,sqlite+qdrant --systems hybrid
    python benchmarks quality DATASET... --embedders minilm,minilm-int8

A data set is a folder in BEIR's layout. Its documents go through the normal ingest; a document
ranks by its best chunk. Of a set with more queries a fixed sample is taken. `--misspell` makes one
or two random edits in every content word of the queries. `--variants` adds other settings and how
their nDCG@10 differs from that of hybrid. With several stores (named in places.py) or embedders, a
base is made for each, and the figures of all but the first are compared with those of the first:
the difference of nDCG@10, the mean share of documents among the first ten that both have, and the
share of queries whose first ten are the same in the same order. Intervals are of 95 %, by paired
bootstrap. `aiblox` is that preset, for which PostgreSQL ranks words by its own ts_rank_cd. The
text index is that of the embedded store: tantivy rounds the lengths of chunks, fts5 does not.
`--cache` keeps vectors for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import beir
from beir import Judgements, interval, mean, misspelt, ndcg, read_questions, recall
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.chunkers import DEFAULT_CHUNKER
from lagotto.prefs import RetrievalPrefs
from lagotto.readers import Columns
from places import PLACES, temporary_place

Settings = dict[str, Any]

SYSTEMS: dict[str, Settings] = {
    "text": {"mode": "keyword", "fuzzy": {"mode": "off"}, "scoring": {"w_exact": 0}},
    "semantic": {"mode": "semantic"},
    "fuzzy": {"mode": "keyword", "scoring": {"w_text": 0, "w_exact": 0}},
    "hybrid": {"mode": "hybrid"},
    "hybrid without fuzzy": {"mode": "hybrid", "fuzzy": {"mode": "off"}},
    "rrf": {"mode": "hybrid", "scoring": {"blend": "rrf"}},
    "aiblox": {"prefs": RetrievalPrefs.preset("aiblox")},
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
DEPTH = 10
Rankings = dict[str, list[str]]
Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
"""A row of figures for each system, by store and embedder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--misspell", action="store_true")
    parser.add_argument("--systems", type=_names, default=list(SYSTEMS), help=", ".join(SYSTEMS))
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--stores", type=_names, default=["sqlite"], help=", ".join(PLACES))
    parser.add_argument("--embedders", type=_names, default=["minilm"])
    parser.add_argument("--chunker", default=DEFAULT_CHUNKER)
    parser.add_argument("--text-index", choices=["tantivy", "fts5"])
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        for dataset in options.datasets:
            _print(dataset.name, asyncio.run(measure(dataset, options)))


def _names(listed: str) -> list[str]:
    return listed.split(",")


async def measure(dataset: Path, options: argparse.Namespace) -> Tables:
    """The tables of one data set."""
    asked, judged = read_questions(dataset, options.queries)
    if options.misspell:
        chance = random.Random(1)
        asked = {name: misspelt(text, chance) for name, text in asked.items()}
    systems = {name: SYSTEMS[name] for name in options.systems}
    systems |= VARIANTS if options.variants else {}
    tables: Tables = {}
    first: dict[str, Rankings] = {}
    for store in options.stores:
        for embedder in options.embedders:
            made = argparse.Namespace(**{**vars(options), "embedder": embedder})
            text_index = options.text_index if store == "sqlite" else None
            async with filled(store, dataset, made, text_index=text_index) as base:
                rankings = {
                    system: await rank(base, asked, settings)
                    for system, settings in systems.items()
                }
            tables[f"{store}, {embedder}"] = {
                system: {**scores(found, judged), **compared(found, first.get(system), judged)}
                for system, found in rankings.items()
            }
            if options.variants:
                plain = gains_of(rankings["hybrid"], judged)
                for system, row in tables[f"{store}, {embedder}"].items():
                    row["minus hybrid"] = interval(gains_of(rankings[system], judged), plain)
            first = first or rankings
    return tables


@asynccontextmanager
async def filled(
    store: str, dataset: Path, options: argparse.Namespace, *, text_index: str | None = None
) -> AsyncIterator[AsyncKnowledgeBase]:
    """A base with the documents of a data set, opened anew, by when all its indexes are built."""

    def base() -> AsyncKnowledgeBase:
        return AsyncKnowledgeBase(
            place.location,
            embedder=beir.embedder(options.embedder, options.cache),
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
    return [ndcg(ranking, judged[name], depth=DEPTH) for name, ranking in rankings.items()]


def scores(rankings: Rankings, judged: Judgements) -> Row:
    """The figures of a system."""
    recalls = [recall(ranking, judged[name], depth=100) for name, ranking in rankings.items()]
    return {"ndcg@10": mean(gains_of(rankings, judged)), "recall@100": mean(recalls)}


def compared(rankings: Rankings, first: Rankings | None, judged: Judgements) -> Row:
    """How the rankings of a system differ from those that it gave on the first base."""
    if first is None:
        return {}
    tops = [(first[name][:DEPTH], ranking[:DEPTH]) for name, ranking in rankings.items()]
    return {
        "minus first": interval(gains_of(rankings, judged), gains_of(first, judged)),
        "overlap@10": mean([_overlap(set(one), set(other)) for one, other in tops]),
        "same": mean([float(one == other) for one, other in tops]),
    }


def _overlap(one: set[str], other: set[str]) -> float:
    """The share that is in both, of as many as the longer list has."""
    return len(one & other) / max(len(one), len(other)) if one or other else 1.0


def _print(name: str, tables: Tables) -> None:
    for made, table in tables.items():
        print(f"\n{f'{name}, {made}':40} {'nDCG@10':>8} {'R@100':>8}")
        for system, row in table.items():
            rest = "  ".join(
                f"{key} {beir.shown(value) if isinstance(value, list) else value}"
                for key, value in row.items()
                if key not in ("ndcg@10", "recall@100")
            )
            print(
                f"{system:40} {row['ndcg@10']:8.4f} {row['recall@100']:8.4f}   {rest}", flush=True
            )
