from __future__ import annotations

import pytest

from lagotto.errors import ConfigError, UnknownNameError
from lagotto.rerankers import RERANKERS, create_reranker

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
    with pytest.raises(
        UnknownNameError, match=r"no reranker is called 'nope'; there are: .*overlap"
    ):
        create_reranker("nope:1")


@pytest.mark.parametrize("name", ["overlap", "overlap-idf", "lexical", "maxsim"])
def test_those_without_parameters_take_none(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} takes no parameters, but got 'x'"):
        create_reranker(f"{name}:x")
