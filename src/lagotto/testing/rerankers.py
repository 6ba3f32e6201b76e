"""Contract tests for rerankers: inherit from RerankerContract and provide a `reranker` fixture."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from lagotto.rerankers.base import Candidate, Judgement, Reranker, Verdict
from lagotto.results import LegScore
from lagotto.testing.embedders import AWKWARD_TEXTS

QUERY = "When was Stargate Atlantis cancelled?"
CANDIDATES = (
    Candidate(
        id="a",
        text="Stargate Atlantis was cancelled in 2008, after its fifth season.",
        score=0.81,
        title="Stargate Atlantis",
        heading_path=("Production", "Cancellation"),
        language="en",
        legs={"semantic": LegScore(score=0.74, rank=1), "text": LegScore(score=9.5, rank=1)},
    ),
    Candidate(
        id="b",
        text="Stargate Universe followed. It was cancelled as well.",
        score=0.79,
        title="Stargate Universe",
        language="en",
        legs={"semantic": LegScore(score=0.7, rank=2), "text": LegScore(score=6.25)},
    ),
    Candidate(id="c", text="Cats sleep for most of the day.", score=0.12),
    Candidate(id="d", text="Отменён ли «Атлантис»?", score=0.08, language="ru"),
    Candidate(id="e", text="", score=0.0, title=""),
)


@pytest.mark.asyncio
class RerankerContract:
    """Tests of the Reranker protocol.

    They need pytest-asyncio. The fixture should close the reranker it creates. Set `independent` to
    False if verdicts depend on the other candidates; `tolerance` is how far the scores of a passage
    may differ between calls with different candidates.
    """

    independent = True
    tolerance = 1e-5

    async def test_is_a_reranker(self, reranker: Reranker) -> None:
        assert isinstance(reranker, Reranker)
        assert reranker.id
        assert reranker.id == reranker.id.strip()
        assert (reranker.id, reranker.scale) == (reranker.id, reranker.scale)
        assert isinstance(reranker.reads_only_text, bool)
        assert self.independent or not reranker.reads_only_text

    async def test_one_verdict_for_each_candidate(self, reranker: Reranker) -> None:
        for count in (1, 2, len(CANDIDATES)):
            some = CANDIDATES[:count]
            self.check(await reranker.rerank(QUERY, some), reranker, some)

    async def test_no_candidates(self, reranker: Reranker) -> None:
        judgement = await reranker.rerank(QUERY, [])
        assert not judgement.verdicts
        assert not judgement.notes

    async def test_many_candidates(self, reranker: Reranker) -> None:
        many = [
            replace(one, id=f"{one.id}{number}", text=f"{one.text} {number}")
            for number in range(30)
            for one in CANDIDATES
        ]
        self.check(await reranker.rerank(QUERY, many), reranker, many)

    async def test_the_same_question_gives_the_same_verdicts(self, reranker: Reranker) -> None:
        first = await reranker.rerank(QUERY, CANDIDATES)
        self.same(await reranker.rerank(QUERY, list(CANDIDATES)), first)

    async def test_neighbours_and_order_make_no_difference(self, reranker: Reranker) -> None:
        if not self.independent:
            pytest.skip("its verdicts depend on the other candidates")
        together = await reranker.rerank(QUERY, CANDIDATES)
        backwards = await reranker.rerank(QUERY, CANDIDATES[::-1])
        alone = [await reranker.rerank(QUERY, [one]) for one in CANDIDATES]
        assert together.verdicts is not None
        assert backwards.verdicts is not None
        self.same(Judgement(backwards.verdicts[::-1]), together)
        self.same(Judgement([one.verdicts[0] for one in alone if one.verdicts]), together)

    async def test_scores_make_no_difference_to_one_that_reads_only_text(
        self, reranker: Reranker
    ) -> None:
        if not reranker.reads_only_text:
            pytest.skip("its verdicts depend on more than the text")
        rescored = [
            replace(one, score=1 - one.score, legs={"fuzzy": LegScore(score=0.5, rank=9)})
            for one in CANDIDATES
        ]
        self.same(await reranker.rerank(QUERY, rescored), await reranker.rerank(QUERY, CANDIDATES))

    async def test_ids_make_no_difference(self, reranker: Reranker) -> None:
        renamed = [replace(one, id=f"other-{one.id}") for one in CANDIDATES]
        self.same(await reranker.rerank(QUERY, renamed), await reranker.rerank(QUERY, CANDIDATES))

    async def test_awkward_texts(self, reranker: Reranker) -> None:
        awkward = [
            Candidate(id=str(number), text=text, title=text[:50], score=0.5)
            for number, text in enumerate(AWKWARD_TEXTS)
        ]
        self.check(await reranker.rerank(QUERY, awkward), reranker, awkward)

    @pytest.mark.parametrize("query", [text for text in AWKWARD_TEXTS if len(text) < 1000])
    async def test_awkward_queries(self, reranker: Reranker, query: str) -> None:
        self.check(await reranker.rerank(query, CANDIDATES), reranker, CANDIDATES)

    async def test_several_calls_at_once(self, reranker: Reranker) -> None:
        expected = await reranker.rerank(QUERY, CANDIDATES)
        calls = (reranker.rerank(QUERY, CANDIDATES) for _ in range(4))
        for judgement in await asyncio.gather(*calls):
            self.same(judgement, expected)

    async def test_a_cancelled_call_harms_nothing(self, reranker: Reranker) -> None:
        expected = await reranker.rerank(QUERY, CANDIDATES)
        call = asyncio.ensure_future(reranker.rerank(QUERY, CANDIDATES * 20))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        self.same(await reranker.rerank(QUERY, CANDIDATES), expected)

    async def test_closing_twice(self, reranker: Reranker) -> None:
        await reranker.rerank(QUERY, CANDIDATES)
        await reranker.close()
        await reranker.close()

    def check(
        self, judgement: Judgement, reranker: Reranker, candidates: Sequence[Candidate]
    ) -> None:
        """Check that there is a verdict per candidate, on the scale, with evidence in the text."""
        if judgement.verdicts is None:
            return
        assert len(judgement.verdicts) == len(candidates)
        for verdict, candidate in zip(judgement.verdicts, candidates, strict=True):
            if verdict is None:
                continue
            assert math.isfinite(verdict.score)
            assert 0 <= reranker.scale.unit(verdict.score) <= 1
            if not reranker.scale.logit:
                assert reranker.scale.low <= verdict.score <= reranker.scale.high
            if verdict.evidence is not None:
                start, end = verdict.evidence
                assert 0 <= start < end <= len(candidate.text)

    def same(self, judgement: Judgement, expected: Judgement) -> None:
        """Check that the verdicts are the same, within the tolerance."""
        assert (judgement.verdicts is None) == (expected.verdicts is None)
        pairs = zip(judgement.verdicts or (), expected.verdicts or (), strict=True)
        for one, other in pairs:
            assert (one is None) == (other is None)
            if isinstance(one, Verdict) and isinstance(other, Verdict):
                assert one.score == pytest.approx(other.score, abs=self.tolerance)
                assert (one.answerable, one.evidence) == (other.answerable, other.evidence)
