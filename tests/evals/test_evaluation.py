from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

import pytest

from lagotto.errors import ConfigError
from lagotto.evals import JudgedQuery, evaluate
from lagotto.results import Results, RetrievalResult, RetrievalStats

QUERIES = [JudgedQuery("one", {(None, "a"): 1}), JudgedQuery("two", {("wiki", "b"): 1})]


class Rankings:
    """Answers queries with hits of these documents; counts what it is asked."""

    def __init__(self, **documents: Sequence[str]) -> None:
        self._documents = documents
        self.asked: list[tuple[list[str], dict[str, Any]]] = []

    def retrieve_many(self, queries: Sequence[str], /, **settings: Any) -> list[Results]:
        self.asked.append((list(queries), settings))
        stats = RetrievalStats(degraded=("text: none",))
        names = self._documents[settings["mode"]]
        return [Results(map(hit, names), stats=stats) for _ in queries]


def hit(name: str) -> RetrievalResult:
    collection, _, document_id = name.rpartition("/")
    return RetrievalResult(
        rank=1, score=1, content="", chunk_id=name, document_id=document_id,
        document_title=None, document_source="", collection=collection, start=0, end=0,
    )  # fmt: skip


def test_documents_rank_by_their_best_passage() -> None:
    base: Any = Rankings(hybrid=["wiki/x", "wiki/x", "wiki/a", "wiki/b", "wiki/a"])
    (found,) = evaluate(base, QUERIES, {"all": {"mode": "hybrid"}}).systems
    assert found.ndcg.mean == pytest.approx((1 / log2(3) + 1 / log2(4)) / 2)
    assert found.reciprocal_rank == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found.recall == 1
    assert found.difference is None


def test_a_judged_collection_counts_and_any_other_does_not() -> None:
    base: Any = Rankings(hybrid=["other/b", "other/a"])
    (found,) = evaluate(base, QUERIES, {"all": {"mode": "hybrid"}}).systems
    assert found.recall == 1 / 2  # a, wherever it is, and b only in wiki


@pytest.mark.parametrize(("rank", "expected"), [(100, 1.0), (101, 0.0)])
def test_recall_is_that_of_the_first_hundred_documents(rank: int, expected: float) -> None:
    base: Any = Rankings(hybrid=[*(f"wiki/x{number}" for number in range(1, rank)), "wiki/a"])
    (found,) = evaluate(base, QUERIES[:1], {"all": {"mode": "hybrid"}}).systems
    assert (found.recall, found.ndcg.mean, found.reciprocal_rank) == (expected, 0, 0)


@pytest.mark.parametrize(("rank", "expected"), [(10, 1 / 10), (11, 0.0)])
def test_other_metrics_are_of_the_first_ten(rank: int, expected: float) -> None:
    base: Any = Rankings(hybrid=[*(f"wiki/x{number}" for number in range(1, rank)), "wiki/a"])
    (found,) = evaluate(base, QUERIES[:1], {"all": {"mode": "hybrid"}}).systems
    assert found.reciprocal_rank == pytest.approx(expected)
    assert bool(found.ndcg.mean) == bool(expected)


def test_differences_are_from_the_last_system() -> None:
    base: Any = Rankings(keyword=["wiki/a"], hybrid=["wiki/b", "wiki/a"])
    systems: dict[str, dict[str, Any]] = {
        "words": {"mode": "keyword"},
        "both": {"mode": "hybrid", "top_k": 7},
    }
    found = evaluate(base, QUERIES, systems)
    words, both = found.systems
    assert (words.ndcg.mean, both.difference) == (0.5, None)
    assert words.difference is not None
    assert words.difference.mean == pytest.approx(0.5 - (1 / log2(3) + 1) / 2)
    assert (words.difference.low, words.difference.high) == pytest.approx((-1, 1 - 1 / log2(3)))
    assert [settings["top_k"] for _, settings in base.asked] == [120, 7]
    assert (found.queries, found.degraded) == (2, ("text: none",))


def test_many_queries_are_asked_in_batches() -> None:
    base: Any = Rankings(hybrid=["wiki/a"])
    done: list[int] = []
    evaluate(base, QUERIES * 60, {"all": {"mode": "hybrid"}}, progress=done.append)
    assert done == [len(queries) for queries, _ in base.asked] == [50, 50, 20]


def test_no_query_is_an_error() -> None:
    base: Any = Rankings()
    with pytest.raises(ConfigError, match="no query with a relevant document"):
        evaluate(base, [], {"all": {}})
