"""FTS5 keeps the contract of text indexes, as a search in a base sees it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lagotto.filters import And
from lagotto.indexes.base import TextSnapshot
from lagotto.indexes.text_query import Phrase, Prefix, Word
from lagotto.stores.sqlite.fts5 import Fts5Text, expression
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.testing.indexes import MemoryChangeLog, TextIndexContract, replay, stored_keys


class TestFts5(TextIndexContract):
    @asynccontextmanager
    async def snapshot(
        self, log: MemoryChangeLog
    ) -> AsyncIterator[tuple[TextSnapshot, Mapping[int, int]]]:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "kb.db", text_index="fts5")
            await store.open()
            await replay(log, store)
            async with store.view(And()) as view:
                assert isinstance(view._text, Fts5Text)
                yield view._text, await stored_keys(log, view)
            await store.close()


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
