"""Few segments out of many, so that a search reads few rows per term."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select, text

from lagotto.stores.base import ChunkKeys
from lagotto.stores.postgres.indexing import add_postings, take_segment_number
from lagotto.stores.postgres.postings import living
from lagotto.stores.postgres.tables import GoneRow, SegmentRow

AT_ONCE = 8
"""So many segments of about the same size become one."""

FEW_GONE = 1_000
MOST_GONE = 0.2
"""More chunks than this that are gone, and a greater share of all, are cleared away."""

PAGE = 2_000

_JOIN = text(
    "WITH former AS (DELETE FROM posting WHERE segment = ANY(:segments) RETURNING *) "
    "INSERT INTO posting (term, segment, records) "
    "SELECT term, :number, string_agg(records, ''::bytea) FROM former GROUP BY term"
)
_TAKE_PAGE = text(
    "WITH page AS (SELECT DISTINCT term FROM posting WHERE term > :last ORDER BY term LIMIT :size),"
    " former AS (DELETE FROM posting WHERE term IN (SELECT term FROM page) RETURNING *) "
    "SELECT term, string_agg(records, ''::bytea) FROM former GROUP BY term ORDER BY term"
)
_DROP_TERMS = text(
    "DELETE FROM term WHERE NOT EXISTS (SELECT 1 FROM posting WHERE posting.term = term.text)"
)

Size = tuple[int, int]
"""A segment's number, and how many chunks it has."""


def merge(connection: Connection) -> None:
    """Do what is due; the caller is the only writer."""
    sizes: list[Size] = [
        (number, chunks)
        for number, chunks in connection.execute(select(SegmentRow.number, SegmentRow.chunks))
    ]
    gone = np.array(connection.scalars(select(GoneRow.chunk_key)).all(), np.int64)
    if len(gone) > max(FEW_GONE, MOST_GONE * sum(chunks for _, chunks in sizes)):
        _clear_away(connection, gone)
        return
    while due := due_segments(sizes):
        sizes = [size for size in sizes if size not in due]
        sizes.append(_join(connection, due))


def due_segments(sizes: Sequence[Size]) -> list[Size]:
    """The segments that should become one: the smallest ones of which there are too many."""
    levels: dict[int, list[Size]] = {}
    for number, chunks in sizes:
        levels.setdefault(int(math.log(max(chunks, 1), AT_ONCE)), []).append((number, chunks))
    full = [level for level, members in levels.items() if len(members) >= AT_ONCE]
    return levels[min(full)] if full else []


def _join(connection: Connection, sizes: Sequence[Size]) -> Size:
    numbers = [number for number, _ in sizes]
    joined = take_segment_number(connection), sum(chunks for _, chunks in sizes)
    connection.execute(_JOIN, {"segments": numbers, "number": joined[0]})
    _replace_segments(connection, numbers, joined)
    return joined


def _clear_away(connection: Connection, gone: ChunkKeys) -> None:
    """Write all postings anew, a page of terms at a time, without the chunks that are gone."""
    numbers = list(connection.scalars(select(SegmentRow.number)))
    chunks = connection.scalar(select(func.sum(SegmentRow.chunks))) or 0
    number = take_segment_number(connection)
    last = ""
    while page := connection.execute(_TAKE_PAGE, {"last": last, "size": PAGE}).all():
        kept = ((term, living(records, gone).tobytes()) for term, records in page)
        add_postings(connection, number, [row for row in kept if row[1]])
        last = page[-1][0]
    _replace_segments(connection, numbers, (number, chunks - len(gone)))
    connection.execute(delete(GoneRow))
    connection.execute(_DROP_TERMS)


def _replace_segments(connection: Connection, numbers: Sequence[int], new: Size) -> None:
    connection.execute(delete(SegmentRow).where(SegmentRow.number.in_(numbers)))
    connection.execute(insert(SegmentRow).values(number=new[0], chunks=new[1]))
