from __future__ import annotations

import pytest

from lagotto.indexes.text_query import Phrase, Prefix, Word
from lagotto.stores.sqlite.fts5_index import expression


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Word(("cat",)), '"cat"'),
        (Word(("cat", "кот")), '"cat" OR "кот"'),
        (Prefix("ca"), '"ca" *'),
        (Phrase((("big", "cat"),)), '"big cat"'),
        (Phrase((("big", "cat"), ("большой", "кот"))), '"big cat" OR "большой кот"'),
        (Phrase((("big",), ())), '"big"'),
        (Word(("or", "near", "not")), '"or" OR "near" OR "not"'),
    ],
)
def test_what_fts5_is_asked(match: Word | Prefix | Phrase, expected: str) -> None:
    assert expression(match) == expected


@pytest.mark.parametrize("text", ["", '"', "a b", "a-b", "Cat", "a*", "\0", "a\0", "\ud800", "\n"])
def test_what_is_no_term_is_not_looked_for(text: str) -> None:
    assert expression(Word((text,))) is None
    assert expression(Prefix(text)) is None
    assert expression(Phrase((("cat", text),))) is None
    assert expression(Word((text, "cat"))) == '"cat"'
