"""Merging many segments into few, so that a search reads few rows per term.

One transaction at a time merges, beside the writers: it replaces committed segments, and writers
only add new ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select, text

from lagotto.stores.postgres.locks import may_merge
from lagotto.stores.postgres.tables import GoneRow, SegmentRow
from lagotto.stores.postgres.text_index.postings import living
from lagotto.stores.postgres.text_index.write import add_postings, conclude

AT_ONCE = 8
"""This many segments of about the same size become one."""

FEW_GONE = 1_000
MOST_GONE = 0.2
"""More removed chunks than this, if they are also this share of all, are cleared."""

PAGE = 2_000

_JOIN = text(
    "WITH former AS (DELETE FROM posting WHERE segment = ANY(:segments) RETURNING *) "
    "INSERT INTO posting (term, segment, records) "
    "SELECT term, :number, string_agg(records, ''::bytea) FROM former GROUP BY term"
)
_TAKE_PAGE = text(
    "WITH page AS (SELECT DISTINCT term FROM posting WHERE term > :last "
    "AND segment = ANY(:segments) ORDER BY term LIMIT :size), "
    "former AS (DELETE FROM posting WHERE term IN (SELECT term FROM page) "
    "AND segment = ANY(:segments) RETURNING *) "
    "SELECT term, string_agg(records, ''::bytea) FROM former GROUP BY term ORDER BY term"
)
_DROP_GONE = text("DELETE FROM gone WHERE chunk_key = ANY(cast(:keys AS bigint[]))")
_DROP_TERMS = text(
    "DELETE FROM term WHERE NOT EXISTS (SELECT 1 FROM posting WHERE posting.term = term.text)"
)

Size = tuple[int, int]
"""A segment's number, and how many chunks it has."""

Step = Literal["join", "clear"]


def due_step(connection: Connection) -> Step | None:
    """The next step that is due."""
    sizes = _sizes(connection)
    gone = connection.scalar(select(func.count()).select_from(GoneRow)) or 0
    if gone > max(FEW_GONE, MOST_GONE * sum(chunks for _, chunks in sizes)):
        return "clear"
    return "join" if due_segments(sizes) else None


def merge(connection: Connection, number: int) -> Step | None:
    """Do the next step, unless another client is merging; return what was done.

    `number` is the number of the new segment. After clearing, call `drop_terms`.
    """
    step = due_step(connection) if may_merge(connection) else None
    if step == "join":
        _join(connection, number)
    elif step == "clear":
        _clear_away(connection, number)
    return step


def due_segments(sizes: Sequence[Size]) -> list[Size]:
    """The segments to merge: the smallest size of which there are too many."""
    levels: dict[int, list[Size]] = {}
    for number, chunks in sizes:
        levels.setdefault(int(math.log(max(chunks, 1), AT_ONCE)), []).append((number, chunks))
    full = [level for level, members in levels.items() if len(members) >= AT_ONCE]
    return levels[min(full)] if full else []


def drop_terms(connection: Connection) -> None:
    """Drop terms that no chunk contains any more; the caller is the only writer.

    Otherwise a writer could find its term here, and lose it before its postings are committed.
    """
    connection.execute(_DROP_TERMS)


def _sizes(connection: Connection) -> list[Size]:
    rows = connection.execute(select(SegmentRow.number, SegmentRow.chunks))
    return [(number, chunks) for number, chunks in rows]


def _join(connection: Connection, number: int) -> None:
    due = due_segments(_sizes(connection))
    former = [one for one, _ in due]
    connection.execute(_JOIN, {"segments": former, "number": number})
    _replace_segments(connection, former, (number, sum(chunks for _, chunks in due)))


def _clear_away(connection: Connection, number: int) -> None:
    """Rewrite postings without the removed chunks, a page of terms at a time.

    The removed chunks are read first, so that all their postings are in the segments read after.
    Chunks that others remove meanwhile, and segments that they add, stay.
    """
    gone = np.array(connection.scalars(select(GoneRow.chunk_key)).all(), np.int64)
    sizes = _sizes(connection)
    former = [one for one, _ in sizes]
    last = ""
    while page := _take_page(connection, former, behind=last):
        kept = ((term, living(records, gone).tobytes()) for term, records in page)
        add_postings(connection, number, [row for row in kept if row[1]])
        last = page[-1][0]
    _replace_segments(connection, former, (number, sum(chunks for _, chunks in sizes) - len(gone)))
    connection.execute(_DROP_GONE, {"keys": gone.tolist()})
    conclude(connection)


def _take_page(
    connection: Connection, segments: Sequence[int], *, behind: str
) -> Sequence[tuple[str, bytes]]:
    """Delete and return the next terms with their postings."""
    asked = {"segments": segments, "last": behind, "size": PAGE}
    return [(term, records) for term, records in connection.execute(_TAKE_PAGE, asked)]


def _replace_segments(connection: Connection, numbers: Sequence[int], new: Size) -> None:
    connection.execute(delete(SegmentRow).where(SegmentRow.number.in_(numbers)))
    connection.execute(insert(SegmentRow).values(number=new[0], chunks=new[1]))
