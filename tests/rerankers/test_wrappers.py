from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lagotto.documents import Span
from lagotto.errors import ConfigError
from lagotto.rerankers import (
    LOGIT,
    UNIT,
    BlendedReranker,
    CachedReranker,
    FallbackReranker,
    GatedReranker,
    Judgement,
    Reranker,
    ScoreScale,
    Verdict,
    create_reranker,
)
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract

from .doubles import Scripted, scores


class TestContract(RerankerContract):
    @pytest.fixture(params=["in memory", "on disk", "blended"])
    def reranker(self, request: pytest.FixtureRequest, tmp_path: Path) -> Reranker:
        overlap = create_reranker("overlap")
        if request.param == "blended":
            return BlendedReranker(overlap, weight=0.3)
        folder = tmp_path / "new" / "folder" if request.param == "on disk" else None
        return CachedReranker(overlap, folder=folder, entries=3)


async def test_only_new_passages_are_judged() -> None:
    inner = Scripted()
    cached = CachedReranker(inner)
    await cached.rerank(QUERY, CANDIDATES[:2])
    await cached.rerank(QUERY, CANDIDATES)
    await cached.rerank(QUERY, CANDIDATES[::-1])
    assert inner.calls == [["a", "b"], ["c", "d", "e"]]


async def test_id_score_and_legs_of_a_candidate_make_no_difference() -> None:
    inner = Scripted()
    cached = CachedReranker(inner)
    await cached.rerank(QUERY, CANDIDATES[:1])
    await cached.rerank(QUERY, [replace(CANDIDATES[0], id="z", score=0.1, legs={})])
    assert len(inner.calls) == 1


@pytest.mark.parametrize(
    "change", [{"text": "new"}, {"title": "new"}, {"heading_path": ("new",)}, {"language": "de"}]
)
async def test_whatever_it_says_does(change: dict[str, str]) -> None:
    inner = Scripted()
    cached = CachedReranker(inner)
    await cached.rerank(QUERY, CANDIDATES[:1])
    await cached.rerank(QUERY, [replace(CANDIDATES[0], **change)])  # type: ignore[arg-type]
    assert len(inner.calls) == 2


async def test_so_do_query_and_reranker(tmp_path: Path) -> None:
    one, other = Scripted(id="one"), Scripted(id="two")
    await CachedReranker(one, folder=tmp_path).rerank(QUERY, CANDIDATES[:1])
    await CachedReranker(one, folder=tmp_path).rerank("Another?", CANDIDATES[:1])
    await CachedReranker(other, folder=tmp_path).rerank(QUERY, CANDIDATES[:1])
    assert (len(one.calls), len(other.calls)) == (2, 1)


async def test_the_disk_remembers_everything_a_verdict_says(tmp_path: Path) -> None:
    verdict = Verdict(0.1 + 0.2, answerable=True, evidence=Span(2, 7))
    inner = Scripted(lambda query, one: None if one.id == "b" else verdict)
    first = await CachedReranker(inner, folder=tmp_path).rerank(QUERY, CANDIDATES)
    again = await CachedReranker(inner, folder=tmp_path).rerank(QUERY, CANDIDATES)
    assert again == first
    assert len(inner.calls) == 1


async def test_memory_keeps_what_was_used_last() -> None:
    inner = Scripted()
    cached = CachedReranker(inner, entries=2)
    for index in (0, 1, 0, 2, 0, 1):
        await cached.rerank(QUERY, CANDIDATES[index : index + 1])
    assert inner.calls == [["a"], ["b"], ["c"], ["b"]]


async def test_the_same_passage_twice_is_judged_once() -> None:
    inner = Scripted()
    judgement = await CachedReranker(inner).rerank(QUERY, [CANDIDATES[0], CANDIDATES[0]])
    assert inner.calls == [["a"]]
    assert len(scores(judgement)) == 2


async def test_what_came_with_a_note_is_not_kept(tmp_path: Path) -> None:
    fallback = FallbackReranker(Scripted(id="best", failure="down"), Scripted(id="second"))
    cached = CachedReranker(fallback, folder=tmp_path)
    for _ in range(2):
        judgement = await cached.rerank(QUERY, CANDIDATES)
        assert judgement.notes == ("best failed (down)",)


async def test_no_verdicts_are_not_kept() -> None:
    inner = Scripted(silent=True)
    cached = CachedReranker(inner)
    assert await cached.rerank(QUERY, CANDIDATES) == Judgement(None)
    inner.silent = False
    assert (await cached.rerank(QUERY, CANDIDATES)).verdicts is not None


@pytest.mark.parametrize("name", ["overlap-idf", "score:0.5", "lexical"])
def test_verdicts_that_depend_on_more_than_the_passage_are_not_for_keeping(name: str) -> None:
    with pytest.raises(ConfigError, match="depend on more than the passage"):
        CachedReranker(create_reranker(name))
    with pytest.raises(ConfigError, match="blended"):
        CachedReranker(BlendedReranker(Scripted()))
    with pytest.raises(ConfigError, match="fallback"):
        CachedReranker(FallbackReranker(Scripted(), create_reranker(name)))


async def test_a_cache_that_cannot_be_used_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cached = CachedReranker(Scripted(), folder=tmp_path / "file")
    judgement = await cached.rerank(QUERY, CANDIDATES)
    assert len(scores(judgement)) == len(CANDIDATES)
    assert all("can't use the verdict cache" in note for note in judgement.notes)
    assert judgement.notes


def test_entries() -> None:
    with pytest.raises(ConfigError, match="entries is 0"):
        CachedReranker(Scripted(), entries=0)


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
        inner = Scripted(lambda query, one: Verdict(80), scale=ScoreScale(high=100))
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

    async def test_it_closes_what_it_wraps(self) -> None:
        inner = Scripted()
        await BlendedReranker(inner).close()
        assert inner.closed == 1

    async def test_no_verdicts_stay_none(self) -> None:
        judgement = await BlendedReranker(Scripted(silent=True)).rerank(QUERY, CANDIDATES)
        assert judgement == Judgement(None)

    def test_a_weight_that_is_none(self) -> None:
        for weight in (1.01, -0.01):
            with pytest.raises(ConfigError, match=rf"weight is {weight}"):
                BlendedReranker(Scripted(), weight=weight)
        assert [BlendedReranker(Scripted(), weight=end).weight for end in (0, 1)] == [0, 1]
        assert BlendedReranker(Scripted()).id == "blended(scripted, 0.5)"


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

    async def test_a_lead_of_just_the_margin_is_clear(self) -> None:
        inner = Scripted()
        pair = [
            replace(one, score=score) for one, score in zip(CANDIDATES, (0.75, 0.5), strict=False)
        ]
        assert await GatedReranker(inner, margin=0.25).rerank(QUERY, pair) == Judgement(None)
        assert await GatedReranker(inner, margin=0.26).rerank(QUERY, pair) != Judgement(None)

    async def test_the_order_of_candidates_makes_no_difference(self) -> None:
        inner = Scripted()
        judgement = await GatedReranker(inner, margin=0.01).rerank(QUERY, CANDIDATES[::-1])
        assert judgement == Judgement(None)
        assert not inner.calls

    async def test_a_single_candidate_is_judged(self) -> None:
        inner = Scripted()
        gated = GatedReranker(inner)
        assert gated.id == "gated(scripted, 0.1, 2)"
        await gated.rerank(QUERY, CANDIDATES[:1])
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
        assert "keeping the fused order" in judgement.notes[-1]

    async def test_a_shared_scale_is_kept(self) -> None:
        percent = ScoreScale(high=100)
        inner = Scripted(lambda query, one: Verdict(70), scale=percent)
        fallback = FallbackReranker(Scripted(failure="down", scale=percent), inner)
        assert fallback.scale == percent
        assert scores(await fallback.rerank(QUERY, CANDIDATES[:1])) == [70]

    async def test_different_scales_become_one(self) -> None:
        inner = Scripted(
            lambda query, one: Verdict(70) if one.id == "a" else None, scale=ScoreScale(high=100)
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
