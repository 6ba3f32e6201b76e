from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.mcp.quotation import LEAST_TOKENS, cut, estimate, most, on_wire
from lagotto.models.tokenizer import ApproximateTokenizer


@given(st.text())
def test_an_estimate_is_never_below_the_tokenizer_of_the_library(text: str) -> None:
    assert estimate(text) >= ApproximateTokenizer().count([text])[0]


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("x" * 9_000, 6_000),  # one word to a tokenizer of words
        (" " * 9_000, 2_000),
        ("\n" * 900, 900 // 4),
        ("QUJDRA==" * 1_000, 5_000),
        ("犬" * 1_000, 1_000),
        ("😀" * 1_000, 2_000),
    ],
)
def test_what_has_few_words_is_not_free(text: str, least: int) -> None:
    assert estimate(text) >= least


@given(st.text(), st.text())
def test_a_longer_text_has_no_fewer_tokens(text: str, more: str) -> None:
    assert on_wire(text + more) >= on_wire(text)


def test_the_wire_counts_escapes() -> None:
    quotes = '"' * 100
    assert on_wire(quotes) >= estimate(json.dumps(quotes)) > estimate(quotes)


@given(st.integers(0, 3_000), st.integers(LEAST_TOKENS, 3_000))
def test_most_is_the_most_that_fits(limit: int, budget: int) -> None:
    def render(number: int) -> str:
        return "word " * number

    found = most(limit, render, budget=budget)
    assert on_wire(render(found)) <= budget
    assert found == limit or on_wire(render(found + 1)) > budget


@given(st.text(max_size=3_000))
def test_a_message_is_cut(text: str) -> None:
    assert on_wire(cut(text)) <= LEAST_TOKENS
    assert on_wire(text) > LEAST_TOKENS or cut(text) == text
