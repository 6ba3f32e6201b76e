"""Data sets in the layout of BEIR, and how rankings of their documents are scored."""

from __future__ import annotations

import csv
import json
import random
import string
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lagotto import evals
from lagotto.embedders import CachedEmbedder, Embedder, create_embedder
from lagotto.evals import ndcg, recall
from lagotto.terms import keywords

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


def read_jsonl(path: Path) -> list[dict[str, str]]:
    """The rows of a file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def embedder(name: str, cache: Path | None) -> Embedder:
    """An embedder that keeps its vectors in a folder, if there is one."""
    return CachedEmbedder(create_embedder(name), cache) if cache else create_embedder(name)


def mean(values: Sequence[float]) -> float:
    """Rounded to four decimals."""
    return round(float(np.mean(values)), 4)


def interval(after: Sequence[float], before: Sequence[float]) -> list[float]:
    """The lower bound, the mean and the upper bound of a difference: 95 %, by paired bootstrap."""
    mean, low, high = evals.interval(np.subtract(after, before).tolist())
    return [round(value, 4) for value in (low, mean, high)]


def shown(difference: Sequence[float]) -> str:
    """An interval as text."""
    low, middle, high = difference
    return f"{middle:+.4f} [{low:+.4f}, {high:+.4f}]"


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
