from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import cast

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.base import ChunkText, Hits, LogPosition
from lagotto.indexes.text_query import Every, Match, Phrase, Term, TextQuery, Without, Word
from lagotto.stores.postgres.database import ReadTransaction
from lagotto.stores.postgres.text_index import (
    AT_ONCE,
    RECORD,
    PostingsText,
    Statistics,
    due_segments,
    live,
    make_segment,
    phrase,
    tsvector,
)
from lagotto.terms import index_terms

TEXTS = st.lists(st.text("ab. ", max_size=30), max_size=6)
SIZES = st.lists(st.integers(1, 100_000), max_size=200)


@given(TEXTS)
def test_a_segment_holds_every_term_of_every_chunk(texts: list[str]) -> None:
    segment = make_segment([ChunkText(0, 0, text, None) for text in texts])
    keys = np.arange(len(texts), dtype=np.int64) * 3 + 7
    found = {
        (term, int(key)): (int(count), int(length))
        for term, records in segment.rows(keys)
        for key, count, length in np.frombuffer(records, RECORD)
    }
    terms = {int(key): index_terms(text) for key, text in zip(keys, texts, strict=True)}
    assert found == {
        (term, key): (count, len(some))
        for key, some in terms.items()
        for term, count in Counter(some).items()
    }


def test_chunks_that_are_gone_have_no_postings() -> None:
    segment = make_segment([ChunkText(0, 0, text, None) for text in ("dog", "dog cat")])
    rows = dict(segment.rows(np.array([4, 9])))
    assert live(rows["dog"], np.array([4]))["key"].tolist() == [9]
    assert live(rows["dog"], np.array([], np.int64))["key"].tolist() == [4, 9]
    assert not len(live(rows["cat"], np.array([9])))


@given(SIZES)
def test_merging_leaves_few_segments_of_each_size(sizes: list[int]) -> None:
    segments = list(enumerate(sizes))
    while due := due_segments(segments):
        assert len(due) >= AT_ONCE
        segments = [item for item in segments if item not in due]
        segments.append((len(sizes) + len(segments), sum(chunks for _, chunks in due)))
    assert sum(chunks for _, chunks in segments) == sum(sizes)
    assert len(segments) <= (AT_ONCE - 1) * 9


def test_the_server_reads_a_tsvector_as_it_was_meant(server_url: str) -> None:
    terms = ["we", "don't", "back\\slash", "we", "земля", "don't"]
    with psycopg.connect(server_url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE given (terms tsvector)")
        with cursor.copy("COPY given FROM STDIN (FORMAT BINARY)") as copy:
            data = tsvector(terms)
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + (1).to_bytes(2, "big"))
            copy.write(len(data).to_bytes(4, "big") + data + b"\xff\xff")
        for some, held in ((terms[:3], True), (terms[3:], True), (terms[1::-1], False)):
            asked = "SELECT terms @@ cast(%s AS tsquery) FROM given"
            assert cursor.execute(asked, [phrase(some)]).fetchone() == (held,)


@pytest.mark.parametrize(
    "where", [None, Word(("a",)), Every((Without(Word(("a",))), Word(("b",)))), Phrase((("c",),))]
)
@pytest.mark.parametrize("chunks", [300, 20_000])
async def test_scoring_does_not_grow_with_the_base(where: Match | None, chunks: int) -> None:
    """Neither of rare words nor of those that half of the chunks hold."""
    chance = np.random.default_rng(0)
    postings = {}
    for word in "abc":
        postings[word] = made = np.ones(chunks, RECORD)
        made["key"] = np.sort(chance.permutation(3 * chunks)[:chunks])
        made["count"], made["length"] = (
            chance.integers(1, 5, chunks),
            chance.integers(5, 90, chunks),
        )
    query = TextQuery(((Term("a"), Term("b", 0.5)), (Term("c"),)), where=where)
    found, sizes = [], []
    for last_key in (3 * chunks, 50_000_000):
        known = Statistics(0, last_key, 5 * chunks, 200_000, np.empty(0, np.int64))
        text = PostingsText(cast("ReadTransaction", None), known, LogPosition(0, 0), postings)
        tracemalloc.start()
        found.append(await text.search(query, k=50, allowed=None))
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        some = np.arange(0, 3 * chunks, 7)
        found.append(Hits(some, await text.scores(query, some)))
    for first, second in zip(found[:2], found[2:], strict=True):
        assert first.keys.tolist() == second.keys.tolist()
        assert first.scores.tolist() == second.scores.tolist()
    assert len(found[0]) == 50
    assert sizes[1] < 300 * chunks + 100_000
