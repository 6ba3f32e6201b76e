"""Whether the embedded store and another rank alike: the same documents and queries on both.

    python benchmarks/compare.py DATASET... [--with postgresql] [--queries 1000]
                                 [--text-index tantivy|fts5] [--cache FOLDER] [--json]

Data sets and rankings as in quality.py; texts are embedded once for both. Per system: nDCG@10 on
either store, the difference with a paired bootstrap interval of 95 %, the mean share of documents
among the first ten that both have, and for how many queries all of the first ten are in the same
order. The other store is PostgreSQL, or one with indexes on Qdrant, by its name in places.py:
`--with postgresql+qdrant3`. `aiblox` is that preset, for which PostgreSQL ranks words by its own
ts_rank_cd. The text index is that of the embedded store: tantivy rounds the lengths of chunks, fts5
does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from beir import mean, read_questions
from lagotto.prefs import RetrievalPrefs
from places import PLACES
from quality import SYSTEMS, Rankings, Settings, add_options, filled, gains_of, interval, rank

COMPARED: dict[str, Settings] = {**SYSTEMS, "aiblox": {"prefs": RetrievalPrefs.preset("aiblox")}}
DEPTH = 10
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--with", dest="other", choices=PLACES[1:], default="postgresql")
    options = parser.parse_args()
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        for dataset in options.datasets:
            tables[dataset.name] = asyncio.run(compare(dataset, options))
            if not options.json:
                _print(dataset.name, options.other, tables[dataset.name])
    if options.json:
        print(json.dumps(tables, indent=2))


async def compare(dataset: Path, options: argparse.Namespace) -> dict[str, Row]:
    """What becomes of each system on the two stores."""
    asked, judged = read_questions(dataset, options.queries)
    rankings: dict[str, dict[str, Rankings]] = {}
    for store, text_index in (("sqlite", options.text_index), (options.other, None)):
        async with filled(store, dataset, options, text_index=text_index) as base:
            rankings[store] = {
                system: await rank(base, asked, settings) for system, settings in COMPARED.items()
            }
    table = {}
    for system in COMPARED:
        embedded, served = rankings["sqlite"][system], rankings[options.other][system]
        before, after = gains_of(embedded, judged), gains_of(served, judged)
        table[system] = {
            "sqlite": mean(before),
            "other": mean(after),
            "difference": interval(np.subtract(after, before)),
            "overlap@10": mean([_overlap(embedded[name], served[name]) for name in asked]),
            "same": mean([float(embedded[name][:DEPTH] == served[name][:DEPTH]) for name in asked]),
        }
    return table


def _overlap(first: list[str], second: list[str]) -> float:
    """The share of the first ten that is in both, of as many as the longer list has."""
    one, other = set(first[:DEPTH]), set(second[:DEPTH])
    return len(one & other) / max(len(one), len(other)) if one or other else 1.0


def _print(name: str, other: str, table: dict[str, Row]) -> None:
    print(
        f"\n{name:22} {'sqlite':>8} {'other':>8} {'overlap':>8} {'same':>8}   difference ({other})"
    )
    for system, row in table.items():
        low, middle, high = row["difference"]
        print(
            f"{system:22} {row['sqlite']:8.4f} {row['other']:8.4f} {row['overlap@10']:8.4f} "
            f"{row['same']:8.4f}   {middle:+.4f} [{low:+.4f}, {high:+.4f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
