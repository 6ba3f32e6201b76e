"""How well a knowledge base ranks with one embedder or another: hybrid, and vectors alone.

    python benchmarks/embedders.py DATASET... --embedders minilm minilm-int8 gte-small
                                   [--queries 1000] [--cache FOLDER] [--json]

A data set is a folder in BEIR's layout. All its documents are added to a new base for each
embedder; of a set with more queries a fixed sample is taken. The table has the nDCG@10 of each
embedder, and how it differs from that of the first, with a paired bootstrap interval of 95 %.
How fast they are is measured by embed.py. `--cache` keeps vectors for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np

from beir import mean, read_questions
from quality import SYSTEMS, add_options, filled, gains_of, interval, rank

LEGS = ("hybrid", "semantic")
Table = dict[str, dict[str, dict[str, Any]]]
"""nDCG@10 and the interval of the difference, by leg and embedder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--embedders", nargs="+", default=["minilm", "minilm-int8"])
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
    asked, judged = read_questions(dataset, options.queries)
    gains: dict[str, dict[str, list[float]]] = {leg: {} for leg in LEGS}
    for embedder in options.embedders:
        settings = argparse.Namespace(**{**vars(options), "embedder": embedder})
        async with filled("sqlite", dataset, settings, text_index=options.text_index) as base:
            for leg in LEGS:
                rankings = await rank(base, asked, SYSTEMS[leg])
                gains[leg][embedder] = gains_of(rankings, judged)
    first = options.embedders[0]
    return {
        leg: {
            embedder: {
                "ndcg@10": mean(found),
                "difference": interval(np.subtract(found, gains[leg][first])),
            }
            for embedder, found in gains[leg].items()
        }
        for leg in LEGS
    }


def _print(name: str, table: Table) -> None:
    for leg, rows in table.items():
        print(f"\n{f'{name}, {leg}':32} {'nDCG@10':>8}   difference")
        for embedder, row in rows.items():
            low, middle, high = row["difference"]
            print(
                f"{embedder:32} {row['ndcg@10']:8.4f}   {middle:+.4f} [{low:+.4f}, {high:+.4f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
