"""`eval`: how well a base ranks, by vectors, by full text and by both, with intervals."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lagotto._internal.display import counted
from lagotto.cli.connect import open_existing
from lagotto.cli.options import BaseOptions, SearchOptions, argument, option
from lagotto.cli.output import say, stdout, warn
from lagotto.cli.search import arguments, mode_of, settings_of
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.evals import Evaluation, EvidenceScores, Interval, JudgedQuery

MODES = ("keyword", "semantic", "hybrid")
"""What is compared; the last one is the reference."""


def evaluate(
    base: BaseOptions,
    how: SearchOptions,
    folder: Path | None = argument(
        "Queries and relevance in BEIR's layout. [default: the judgements in the base]",
        metavar="[FOLDER]",
        default=None,
    ),
    compare: list[str] = option(
        "Compare with this setting (repeatable).", metavar="NAME=VALUE", default=[]
    ),
    queries: int | None = option("Evaluate on a fixed sample of N queries.", min=1),
) -> Iterator[object]:
    """Measure how well a base ranks, on judged queries."""
    from lagotto import evals

    systems = _systems(how, compare)
    with open_existing(base) as kb:
        judged = _judged_queries(kb, folder, queries)
        _check_documents(kb, judged, how.collection)
        with _bar(len(judged) * len(systems)) as progress:
            evaluation = evals.evaluate(kb, judged, systems, progress=progress)
        marked = evals.read_spans(folder) if folder is not None else []
        reference = list(systems)[-1]
        packs = evals.evaluate_packs(kb, marked[:queries], systems[reference]) if marked else []
    system_rows = []
    for row in evaluation.systems:
        difference = row.difference and row.difference._asdict()
        system_rows.append(asdict(row) | {"ndcg": row.ndcg._asdict(), "difference": difference})
    evidence = {"evidence": packs} if packs else {}
    yield {**asdict(evaluation), "systems": system_rows, **evidence}
    warn(evaluation.degraded)
    _print(evaluation, packs, reference=reference)


@contextmanager
def _bar(queries: int) -> Iterator[Callable[[int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    with typer.progressbar(length=queries, label="queries", file=sys.stderr) as bar:
        yield bar.update


def _systems(how: SearchOptions, compared: list[str]) -> dict[str, dict[str, Any]]:
    """The modes, the reference with each compared setting, and the reference itself at the end."""
    from lagotto.prefs import merged_settings

    settings = arguments(how)
    *others, reference = (mode_of(settings),) if how.mode else MODES
    systems = {mode: {**settings, "mode": mode} for mode in others}
    own = {**settings, "mode": reference}
    for setting in compared:
        changed = merged_settings(settings, settings_of([setting]))
        systems[f"{reference}, {setting}"] = {**changed, "mode": reference}
    return {**systems, reference: own}


def _judged_queries(kb: KnowledgeBase, folder: Path | None, most: int | None) -> list[JudgedQuery]:
    from lagotto.evals import read_beir, read_judgements

    if folder is not None:
        judged = read_beir(folder)
    else:
        judged = read_judgements(kb.judgements())
        if not judged:
            raise ConfigError(
                "the base has no judgements of relevant passages; make some on the page of "
                "`lagotto serve`, or name a folder with queries.jsonl and qrels/test.tsv"
            )
    if most is not None and most < len(judged):
        return random.Random(0).sample(judged, most)
    return judged


def _check_documents(kb: KnowledgeBase, judged: list[JudgedQuery], collection: str | None) -> None:
    """Say how many relevant documents the base lacks: searches can't find these."""
    relevant = {document_id for query in judged for _, document_id in query.relevant()}
    existing = kb.documents(filters={"document_id": sorted(relevant)}, collection=collection)
    missing = relevant - {document.id for document in existing}
    if relevant and missing == relevant:
        raise ConfigError(
            "none of the relevant documents is in the base; documents keep their ids with "
            "`lagotto import FOLDER`"
        )
    if missing:
        count = counted(len(relevant), "relevant document")
        say(f"warning: {len(missing)} of {count} are not in the base, and count as not found")


def _print(evaluation: Evaluation, packs: list[EvidenceScores], *, reference: str) -> None:
    from lagotto.cli.render import print_table

    columns = ("", "nDCG@10", "MRR@10", "recall@100", f"nDCG@10 minus {reference}")
    rows = []
    for row in evaluation.systems:
        difference = _interval(row.difference, sign="+") if row.difference else ""
        ranks = f"{row.reciprocal_rank:.4f}", f"{row.recall:.4f}"
        rows.append((row.name, _interval(row.ndcg), *ranks, difference))
    print_table(stdout(), columns, rows, whole="")
    say(f"queries: {evaluation.queries:,}; in brackets, intervals of 95 %")
    if packs:
        heads = (f"packs, {reference}", "evidence", "tokens")
        sizes = [
            (f"{row.budget:,} tokens", f"{row.recall:.4f}", f"{row.tokens:,.0f}") for row in packs
        ]
        print_table(stdout(), heads, sizes, whole="")


def _interval(measured: Interval, *, sign: str = "") -> str:
    mean, low, high = (f"{value:{sign}.4f}" for value in measured)
    return f"{mean} [{low}, {high}]"
