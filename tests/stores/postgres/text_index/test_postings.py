from __future__ import annotations

from collections import Counter

import numpy as np
import psycopg
from hypothesis import given
from hypothesis import strategies as st

from lagotto.stores.postgres.text_index import (
    AT_ONCE,
    RECORD,
    due_segments,
    joined,
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
    segment = make_segment([(text, None) for text in texts], [None] * len(texts))
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
    segment = make_segment([("dog", None), ("dog cat", None)], [None, None])
    rows = joined(list(segment.rows(np.array([4, 9]))))
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
