from __future__ import annotations

import pytest

from lagotto.documents import Span
from lagotto.errors import ConfigError
from lagotto.rerankers import (
    LOGIT,
    UNIT,
    BlendedReranker,
    FallbackReranker,
    GatedReranker,
    Judgement,
    Reranker,
    Scale,
    Verdict,
    create_reranker,
)
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract

from .doubles import Scripted, scores


class TestBlended(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return BlendedReranker(create_reranker("overlap"), weight=0.3)


class TestGated(RerankerContract):
    independent = False

    @pytest.fixture
    def reranker(self) -> Reranker:
        return GatedReranker(create_reranker("overlap"))


class TestFallback(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return FallbackReranker(Scripted(failure="busy"), create_reranker("overlap"))

    async def test_no_candidates(self, reranker: Reranker) -> None:
        judgement = await reranker.rerank(QUERY, [])
        assert judgement.verdicts == []


class TestBlending:
    async def test_weight_times_the_verdict_and_the_rest_is_the_fused_score(self) -> None:
        inner = Scripted(lambda query, one: Verdict(80), scale=Scale(high=100))
        judgement = await BlendedReranker(inner, weight=0.25).rerank(QUERY, CANDIDATES[:2])
        assert scores(judgement) == pytest.approx(
            [0.25 * 0.8 + 0.75 * 0.81, 0.25 * 0.8 + 0.75 * 0.79]
        )

    async def test_log_odds_become_probabilities(self) -> None:
        inner = Scripted(lambda query, one: Verdict(0), scale=LOGIT)
        judgement = await BlendedReranker(inner, weight=1).rerank(QUERY, CANDIDATES[:1])
        assert scores(judgement) == [0.5]

    async def test_what_goes_stays_gone_and_what_was_said_stays_said(self) -> None:
        verdict = Verdict(0.5, answerable=True, evidence=Span(0, 4))
        inner = Scripted(lambda query, one: None if one.id == "b" else verdict, notes=("slow",))
        judgement = await BlendedReranker(inner).rerank(QUERY, CANDIDATES[:2])
        assert judgement.verdicts is not None
        first, second = judgement.verdicts
        assert second is None
        assert first is not None
        assert (first.answerable, first.evidence) == (True, (0, 4))
        assert judgement.notes == ("slow",)

    async def test_no_verdicts_stay_none(self) -> None:
        judgement = await BlendedReranker(Scripted(silent=True)).rerank(QUERY, CANDIDATES)
        assert judgement == Judgement(None)

    def test_a_weight_that_is_none(self) -> None:
        with pytest.raises(ConfigError, match=r"weight is 1\.5"):
            BlendedReranker(Scripted(), weight=1.5)


class TestGate:
    @pytest.mark.parametrize(
        ("margin", "rank", "asked"),
        [(0.01, 2, False), (0.03, 2, True), (0.5, 3, False), (0.7, 3, True), (1.0, 99, True)],
    )
    async def test_asks_where_the_lead_is_small(
        self, margin: float, rank: int, asked: bool
    ) -> None:
        inner = Scripted()
        gated = GatedReranker(inner, margin=margin, rank=rank)
        judgement = await gated.rerank(QUERY, CANDIDATES)
        assert len(inner.calls) == asked
        assert (judgement.verdicts is not None) == asked
        assert not judgement.notes

    async def test_the_order_of_candidates_makes_no_difference(self) -> None:
        inner = Scripted()
        judgement = await GatedReranker(inner, margin=0.01).rerank(QUERY, CANDIDATES[::-1])
        assert judgement == Judgement(None)
        assert not inner.calls

    async def test_a_single_candidate_is_judged(self) -> None:
        inner = Scripted()
        await GatedReranker(inner).rerank(QUERY, CANDIDATES[:1])
        assert inner.calls == [["a"]]

    @pytest.mark.parametrize("settings", [{"margin": 0.0}, {"margin": 1.1}, {"rank": 1}])
    def test_impossible_gates(self, settings: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match=" is "):
            GatedReranker(Scripted(), **settings)  # type: ignore[arg-type]


class TestFallingBack:
    async def test_the_first_that_works_is_the_last_that_is_asked(self) -> None:
        last = Scripted(id="last")
        fallback = FallbackReranker(
            Scripted(id="one", failure="timed out"), Scripted(id="two", notes=("slow",)), last
        )
        judgement = await fallback.rerank(QUERY, CANDIDATES)
        assert judgement.notes == ("one failed (timed out)", "slow")
        assert judgement.verdicts is not None
        assert not last.calls

    async def test_at_last_the_fused_order_stands(self) -> None:
        fallback = FallbackReranker(Scripted(failure="down"), Scripted(failure="also down"))
        judgement = await fallback.rerank(QUERY, CANDIDATES)
        assert judgement.verdicts is None
        assert len(judgement.notes) == 3
        assert "the fused order stands" in judgement.notes[-1]

    async def test_a_shared_scale_is_kept(self) -> None:
        percent = Scale(high=100)
        inner = Scripted(lambda query, one: Verdict(70), scale=percent)
        fallback = FallbackReranker(Scripted(failure="down", scale=percent), inner)
        assert fallback.scale == percent
        assert scores(await fallback.rerank(QUERY, CANDIDATES[:1])) == [70]

    async def test_different_scales_become_one(self) -> None:
        inner = Scripted(
            lambda query, one: Verdict(70) if one.id == "a" else None, scale=Scale(high=100)
        )
        fallback = FallbackReranker(Scripted(failure="down", scale=LOGIT), inner)
        assert fallback.scale == UNIT
        assert scores(await fallback.rerank(QUERY, CANDIDATES[:2])) == [0.7, None]

    async def test_all_are_closed(self) -> None:
        inner = [Scripted(), Scripted()]
        await FallbackReranker(*inner).close()
        assert [one.closed for one in inner] == [1, 1]


def test_wrappers_name_what_they_wrap() -> None:
    one, other = Scripted(id="one"), Scripted(id="two")
    ids = {
        wrapper.id
        for wrapper in (
            BlendedReranker(one),
            BlendedReranker(other),
            BlendedReranker(one, weight=0.2),
            GatedReranker(one),
            GatedReranker(one, margin=0.2),
            FallbackReranker(one),
            FallbackReranker(one, other),
        )
    }
    assert len(ids) == 7
