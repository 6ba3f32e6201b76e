"""Data sets in the layout of BEIR, and how rankings of their documents are scored."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import numpy as np

Judgements = dict[str, dict[str, int]]


def ndcg(ranking: list[str], judged: dict[str, int], *, depth: int) -> float:
    """Normalised discounted cumulative gain with linear gains, as trec_eval has it."""
    gains = [judged.get(name, 0) for name in ranking[:depth]]
    best = sorted((gain for gain in judged.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(best)


def recall(ranking: list[str], judged: dict[str, int]) -> float:
    """How much of what is relevant was found."""
    relevant = {name for name, gain in judged.items() if gain > 0}
    return len(relevant & set(ranking)) / len(relevant)


def _discounted(gains: list[int]) -> float:
    return float(sum(gain / np.log2(index + 2) for index, gain in enumerate(gains)))


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
