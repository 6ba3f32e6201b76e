from __future__ import annotations

import pytest
from pydantic import ValidationError

from lagotto.documents import Span
from lagotto.errors import ConfigError, UnknownNameError
from lagotto.rerankers import RERANKERS, create_reranker
from lagotto.rerankers.base import (
    LOGIT,
    Candidate,
    Judgement,
    RerankResult,
    ScoreScale,
    Verdict,
    rerank_results,
)

from .doubles import Scripted


def test_a_reranker_is_itself() -> None:
    mine = Scripted()
    assert create_reranker(mine) is mine


def test_what_there_is() -> None:
    known = {"score", "overlap", "overlap-idf", "lexical", "maxsim", "cross-encoder"}
    assert known | {"api", "llm", "llm-score"} <= set(RERANKERS.names())
    for name in RERANKERS.names():
        assert RERANKERS.get(name)


def test_unknown() -> None:
    with pytest.raises(UnknownNameError, match=r'unknown reranker "nope"; available: .*overlap'):
        create_reranker("nope:1")


@pytest.mark.parametrize("name", ["overlap", "overlap-idf", "lexical", "maxsim"])
def test_those_without_parameters_take_none(name: str) -> None:
    with pytest.raises(ConfigError, match=f'{name} takes no parameters, got "x"'):
        create_reranker(f"{name}:x")


@pytest.mark.parametrize(
    ("scale", "units"),
    [
        (ScoreScale(), {-0.5: 0.0, 0.0: 0.0, 0.25: 0.25, 1.0: 1.0, 1.5: 1.0}),
        (ScoreScale(high=10), {0.0: 0.0, 7.0: 0.7, 10.0: 1.0, 11.0: 1.0}),
        (ScoreScale(low=2, high=6), {1.0: 0.0, 2.0: 0.0, 3.0: 0.25, 5.0: 0.75, 6.0: 1.0}),
        (ScoreScale(low=-1), {-1.0: 0.0, 0.0: 0.5, 0.5: 0.75}),
        (LOGIT, {0.0: 0.5, 1.0: 0.7310585786, -1.0: 0.2689414214, 40.0: 1.0, -1e9: 0.0}),
    ],
)
def test_scales_become_0_to_1(scale: ScoreScale, units: dict[float, float]) -> None:
    assert {score: scale.unit(score) for score in units} == pytest.approx(units)


CANDIDATES = [Candidate(id=name, text=f"text of {name}", score=0.5) for name in "abc"]


def test_verdicts_as_records_best_first() -> None:
    judgement = Judgement(
        [Verdict(4.0), None, Verdict(7.0, answerable=True, evidence=Span(0, 4))],
    )
    assert rerank_results(CANDIDATES, judgement, scale=ScoreScale(high=10)) == [
        RerankResult(chunk_id="c", relevance_score=70.0, answerability=True, key_evidence="text"),
        RerankResult(chunk_id="a", relevance_score=40.0),
    ]


def test_equal_scores_keep_their_order() -> None:
    judgement = Judgement([Verdict(1.0)] * 3)
    results = rerank_results(CANDIDATES, judgement, scale=ScoreScale())
    assert [result.chunk_id for result in results] == ["a", "b", "c"]


def test_no_verdicts_no_results() -> None:
    assert rerank_results(CANDIDATES, Judgement(None), scale=ScoreScale()) == []


def test_scores_of_results_are_from_0_to_100() -> None:
    assert [RerankResult(chunk_id="a", relevance_score=end).relevance_score for end in (0, 100)]
    for score in (-0.1, 100.1):
        with pytest.raises(ValidationError, match="relevance_score"):
            RerankResult(chunk_id="a", relevance_score=score)
