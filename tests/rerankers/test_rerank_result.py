from __future__ import annotations

from lagotto.documents import Span
from lagotto.rerankers.base import Candidate, Judgement, Scale, Verdict
from lagotto.rerankers.rerank_result import RerankResult, rerank_results

CANDIDATES = [Candidate(id=name, text=f"text of {name}", score=0.5) for name in "abc"]


def test_verdicts_as_records_best_first() -> None:
    judgement = Judgement(
        [Verdict(4.0), None, Verdict(7.0, answerable=True, evidence=Span(0, 4))],
    )
    assert rerank_results(CANDIDATES, judgement, scale=Scale(high=10)) == [
        RerankResult(chunk_id="c", relevance_score=70.0, answerability=True, key_evidence="text"),
        RerankResult(chunk_id="a", relevance_score=40.0),
    ]


def test_equal_scores_keep_their_order() -> None:
    judgement = Judgement([Verdict(1.0)] * 3)
    results = rerank_results(CANDIDATES, judgement, scale=Scale())
    assert [result.chunk_id for result in results] == ["a", "b", "c"]


def test_no_verdicts_no_results() -> None:
    assert rerank_results(CANDIDATES, Judgement(None), scale=Scale()) == []
