"""FTS5 keeps the contract of text indexes, as a search in a base sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from lagotto.filters import And
from lagotto.indexes.base import TextSnapshot
from lagotto.indexes.text_query import Phrase, Prefix, Word
from lagotto.stores.sqlite.fts5 import Fts5Text, expression
from lagotto.testing.indexes import MemoryChangeLog, TextIndexContract, replay, stored_keys
from tests.stores.sqlite.bases import sqlite_store


class TestFts5(TextIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        async with sqlite_store(text_index="fts5") as store:
            await replay(log, store)
            async with store.view(And()) as view:
                assert isinstance(view._text, Fts5Text)
                yield view._text, await stored_keys(log, view)


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
