from __future__ import annotations

import pytest

from lagotto.errors import ConfigError
from lagotto.rerankers import Reranker, create_reranker
from lagotto.rerankers.lexical import ScoreReranker
from lagotto.testing.rerankers import CANDIDATES, QUERY, RerankerContract
from tests.rerankers.doubles import scores


class TestScore(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return ScoreReranker(0.1)


async def test_what_is_below_the_minimum_goes_and_the_rest_keeps_its_score() -> None:
    judgement = await ScoreReranker(0.12).rerank(QUERY, CANDIDATES)
    assert scores(judgement) == [0.81, 0.79, 0.12, None, None]


def test_by_name() -> None:
    assert create_reranker("score:0.1").id == ScoreReranker(0.1).id == "score:0.1"
    assert [create_reranker(f"score:{end}").id for end in (0, 1)] == ["score:0.0", "score:1.0"]


@pytest.mark.parametrize(
    "name", ["score", "score:", "score:high", "score:1.5", "score:-0.1", "score:nan"]
)
def test_no_minimum(name: str) -> None:
    with pytest.raises(ConfigError, match="score"):
        create_reranker(name)
