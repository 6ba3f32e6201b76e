"""Whether the embedded store and others rank alike: the same documents and queries on all.

    python benchmarks/compare.py DATASET... [--with postgresql,sqlite+qdrant] [--queries 1000]
                                 [--compared 300] [--systems hybrid,aiblox] [--shown text,rrf]
                                 [--text-index tantivy|fts5] [--cache FOLDER] [--json]

Data sets and rankings as in quality.py; texts are embedded once for all. Per system: nDCG@10 on
either store, the difference with a paired bootstrap interval of 95 %, the mean share of documents
among the first ten that both have, and for how many queries all of the first ten are in the same
order. The other stores are PostgreSQL, or ones with indexes on Qdrant, by their names in places.py:
`--with postgresql+qdrant3`. `--systems` are those that are compared, and `--compared` so many of
the queries; `--shown` are shown for the embedded store besides, by all queries.
`aiblox` is that preset, for which PostgreSQL ranks words by its own ts_rank_cd. The text index is
that of the embedded store: tantivy rounds the lengths of chunks, fts5 does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from itertools import islice
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
    parser.add_argument("--with", dest="others", type=_others, default=["postgresql"])
    parser.add_argument("--compared", type=int)
    parser.add_argument("--systems", type=_systems, default=list(COMPARED))
    parser.add_argument("--shown", type=_systems, default=list(COMPARED))
    options = parser.parse_args()
    tables: dict[str, dict[str, dict[str, Row]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        options.cache = options.cache or Path(folder)
        for dataset in options.datasets:
            tables[dataset.name] = asyncio.run(compare(dataset, options))
    if options.json:
        print(json.dumps(tables, indent=2))


def _others(given: str) -> list[str]:
    return _chosen(given, PLACES[1:])


def _systems(given: str) -> list[str]:
    return _chosen(given, list(COMPARED))


def _chosen(given: str, known: Sequence[str]) -> list[str]:
    names = given.split(",")
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of: {', '.join(known)}")
    return names


async def compare(dataset: Path, options: argparse.Namespace) -> dict[str, dict[str, Row]]:
    """What becomes of each system on the other stores."""
    asked, judged = read_questions(dataset, options.queries)
    if not options.json:
        print(f"\n{dataset.name} ({len(asked)} queries)", flush=True)
    shown = [name for name in COMPARED if name in {*options.shown, *options.systems}]
    embedded = await _rankings("sqlite", dataset, asked, shown, options)
    tables: dict[str, dict[str, Row]] = {
        "sqlite": {
            system: {"ndcg@10": mean(gains_of(found, judged))} for system, found in embedded.items()
        }
    }
    if not options.json:
        _print_embedded(tables["sqlite"])
    asked = dict(islice(asked.items(), options.compared))
    for other in options.others:
        served = await _rankings(other, dataset, asked, options.systems, options)
        tables[other] = {}
        for system, found in served.items():
            first = {name: embedded[system][name] for name in asked}
            before, after = gains_of(first, judged), gains_of(found, judged)
            tables[other][system] = {
                "sqlite": mean(before),
                "other": mean(after),
                "difference": interval(np.subtract(after, before)),
                "overlap@10": mean([_overlap(first[name], found[name]) for name in asked]),
                "same": mean([float(first[name][:DEPTH] == found[name][:DEPTH]) for name in asked]),
            }
        if not options.json:
            _print(other, tables[other])
    return tables


async def _rankings(
    store: str,
    dataset: Path,
    asked: dict[str, str],
    systems: Sequence[str],
    options: argparse.Namespace,
) -> dict[str, Rankings]:
    """What a store returns to each system."""
    text_index = options.text_index if store == "sqlite" else None
    async with filled(store, dataset, options, text_index=text_index) as base:
        return {system: await rank(base, asked, COMPARED[system]) for system in systems}


def _overlap(first: list[str], second: list[str]) -> float:
    """The share of the first ten that is in both, of as many as the longer list has."""
    one, other = set(first[:DEPTH]), set(second[:DEPTH])
    return len(one & other) / max(len(one), len(other)) if one or other else 1.0


def _print_embedded(table: dict[str, Row]) -> None:
    for system, row in table.items():
        print(f"{system:22} {row['ndcg@10']:8.4f}", flush=True)


def _print(other: str, table: dict[str, Row]) -> None:
    print(f"{other:22} {'sqlite':>8} {'other':>8} {'overlap':>8} {'same':>8}   difference")
    for system, row in table.items():
        low, middle, high = row["difference"]
        print(
            f"{system:22} {row['sqlite']:8.4f} {row['other']:8.4f} {row['overlap@10']:8.4f} "
            f"{row['same']:8.4f}   {middle:+.4f} [{low:+.4f}, {high:+.4f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
