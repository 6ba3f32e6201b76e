"""Data sets in the layout of BEIR, and how rankings of their documents are scored."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import numpy as np

from lagotto.evals.evaluation import ndcg, recall

__all__ = [
    "Judgements",
    "mean",
    "ndcg",
    "read_jsonl",
    "read_judgements",
    "read_questions",
    "recall",
]

Judgements = dict[str, dict[str, int]]


def mean(values: list[float]) -> float:
    """Rounded to four decimals."""
    return round(float(np.mean(values)), 4)


def read_jsonl(path: Path) -> list[dict[str, str]]:
    """The rows of a file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_questions(dataset: Path, most: int) -> tuple[dict[str, str], Judgements]:
    """The texts of the judged queries by id, a fixed sample of many, and their judgements."""
    judged = read_judgements(dataset / "qrels.tsv")
    queries = [row for row in read_jsonl(dataset / "queries.jsonl") if row["_id"] in judged]
    if len(queries) > most:
        queries = random.Random(0).sample(queries, most)
    return {row["_id"]: row["text"] for row in queries}, judged


def read_judgements(path: Path) -> Judgements:
    """Queries that have at least one relevant document."""
    judged: Judgements = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            judged.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return {query: gains for query, gains in judged.items() if max(gains.values()) > 0}
