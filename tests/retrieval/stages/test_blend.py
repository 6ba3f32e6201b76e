"""A cross-encoder's scores are mixed with the fused ones, on their scale."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.prefs import BLENDED_JUDGED
from lagotto.rerankers import Candidate, Judgement, Verdict
from lagotto.rerankers.base import BLENDED, blend_share, in_time, mapped
from lagotto.results import Results
from lagotto.testing.hash_embedder import HashEmbedder
from tests.rerankers.doubles import Scripted

EMBEDDER = HashEmbedder()
SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(-12, 12)), min_size=1, max_size=30)


def logits(**scores: float) -> Callable[[str, Candidate], Verdict | None]:
    """A rule: the score of a passage by a word that it has, else -11."""

    def rule(query: str, candidate: Candidate) -> Verdict | None:
        held = [score for word, score in scores.items() if word in candidate.text]
        return Verdict(max(held, default=-11.0))

    return rule


async def ask(reranker: object, query: str, *texts: str, **settings: object) -> Results:
    async with AsyncKnowledgeBase(":memory:", embedder=EMBEDDER, reranker=reranker) as base:  # type: ignore[arg-type]
        await base.add(*(Document(id=text, text=text) for text in texts))
        return await base.retrieve(query, **settings)  # type: ignore[arg-type]


OAK = ("oak oak truffle", "oak hazel root", "oak moss lichen fern", "deep lake water")


async def test_the_score_is_half_of_each_and_the_explanation_adds_up() -> None:
    reranker = Scripted(rule=logits(hazel=9.0, lichen=-1.0), scale=BLENDED)
    found = await ask(reranker, "oak truffle", *OAK)
    for hit in found:
        made = hit.breakdown
        assert made.fused_score is not None
        assert made.rerank_mapped is not None
        assert made.rerank_share == 0.5
        assert hit.score == pytest.approx(0.5 * made.fused_score + 0.5 * made.rerank_mapped)
        assert "   blended 0.50 x " in hit.explain()
        assert 0 <= hit.score <= 1
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    best = next(hit for hit in found if "hazel" in hit.content)
    assert best.breakdown.rerank == 9.0
    assert best.breakdown.rerank_score == pytest.approx(0.9999, abs=1e-3)


async def test_a_nonsense_query_gets_no_good_score() -> None:
    """The cross-encoder says which passage is best of all, the fused scores how good that is."""
    before = await ask(None, "florp zzyzx", *OAK)
    after = await ask(Scripted(rule=logits(hazel=12.0), scale=BLENDED), "florp zzyzx", *OAK)
    most = max((hit.score for hit in before), default=0.0)
    assert most < 0.5
    assert all(hit.score <= most for hit in after)


async def test_thresholds_keep_their_meaning() -> None:
    reranker = Scripted(rule=logits(hazel=3.0, oak=-3.0), scale=BLENDED)
    whole = await ask(reranker, "oak truffle", *OAK)
    cut = await ask(reranker, "oak truffle", *OAK, min_score=whole[1].score)
    assert [hit.content for hit in cut] == [hit.content for hit in whole[:2]]
    own = await ask(reranker, "oak truffle", *OAK, rerank={"min_score": 0.5})
    assert [hit.content for hit in own] == ["oak hazel root"], "the cross-encoder's own sigmoid"


async def test_it_sees_twenty_and_the_others_follow() -> None:
    texts = [f"oak {'tree ' * count}" for count in range(BLENDED_JUDGED + 10)]
    reranker = Scripted(rule=logits(tree=1.0), scale=BLENDED)
    plain = await ask(None, "oak", *texts, top_k=30)
    found = await ask(reranker, "oak", *texts, top_k=30)
    assert [len(call) for call in reranker.calls] == [BLENDED_JUDGED]
    assert len(found) == len(plain)
    rest = [hit.content for hit in found if hit.breakdown.rerank is None]
    assert rest == [hit.content for hit in plain][BLENDED_JUDGED:]
    assert [hit.content for hit in found][BLENDED_JUDGED:] == rest
    few = await ask(reranker, "oak", *texts, top_k=30, rerank={"candidates": 5})
    assert len(few) == 5, "with a number, no other comes out"


class Slow(Scripted):
    """Reads a passage in 30 ms, and stops in time."""

    stops_in_time = True

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        verdicts: list[Verdict | None] = [None] * len(candidates)
        reached = set()
        for index in in_time(range(len(candidates))):
            await asyncio.sleep(0.03)
            verdicts[index] = self.rule(query, candidates[index])
            reached.add(index)
        return Judgement(verdicts, unjudged=frozenset(range(len(candidates))) - reached)


async def test_what_is_not_reached_in_time_keeps_its_fused_order() -> None:
    texts = [f"oak {'tree ' * count}" for count in range(20)]
    plain = await ask(None, "oak", *texts, top_k=20)
    reranker = Slow(rule=lambda _, one: Verdict(len(one.text)), scale=BLENDED)
    found = await ask(reranker, "oak", *texts, top_k=20, rerank={"max_ms": 200})
    judged = [hit for hit in found if hit.breakdown.rerank is not None]
    assert 1 <= len(judged) < 20
    assert {hit.content for hit in judged} == {hit.content for hit in plain[: len(judged)]}
    assert found[: len(judged)] == judged
    late = [(hit.content, hit.score) for hit in found[len(judged) :]]
    assert late == [(hit.content, hit.score) for hit in plain[len(judged) :]]
    ends = {plain[0].score, plain[len(judged) - 1].score}
    values = [hit.breakdown.rerank_mapped for hit in judged]
    assert {min(values), max(values)} == ends, "the mapping is over what was read"  # type: ignore[type-var]
    (note,) = found.stats.degraded
    assert f"read {len(judged)} of 20 passages within 200 ms" in note


async def test_one_that_does_not_stop_is_cancelled() -> None:
    class Stuck(Scripted):
        async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
            await asyncio.sleep(60)
            raise AssertionError

    found = await ask(Stuck(), "oak", *OAK, rerank={"max_ms": 20})
    assert found.stats.degraded == (
        "reranker: failed, the fused order stands (scripted took more than 20 ms)",
    )


@pytest.mark.parametrize(
    ("words", "share"), [(1, 0.5), (15, 0.5), (20, 0.44), (40, 0.2), (400, 0.2)]
)
def test_the_share_falls_with_the_length_of_a_query(words: int, share: float) -> None:
    assert blend_share("word " * words) == pytest.approx(share)


@given(SCORES)
def test_mapped_scores_are_in_the_range_of_the_fused_ones(pairs: list[tuple[float, float]]) -> None:
    fused, own = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    made = mapped(own, fused)
    assert all(min(fused) - 1e-9 <= value <= max(fused) + 1e-9 for value in made)
    if max(own) - min(own) > 1e-6:
        order = sorted(range(len(own)), key=lambda index: own[index])
        assert [made[index] for index in order] == pytest.approx(sorted(made))
    if len(set(own)) == 1:
        assert made == fused, "it can't tell them apart"
