"""Keeping the full-text index in step, in the transaction that writes or removes the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from sqlalchemy import Connection, func, insert, select, text

from lagotto.stores.base import ChunkKeys
from lagotto.stores.postgres.copying import copy_encoded, integer
from lagotto.stores.postgres.parameters import array_bytes
from lagotto.stores.postgres.postings import Segment
from lagotto.stores.postgres.tables import ChunkTermsRow, GoneRow, SegmentRow
from lagotto.stores.tables import ChunkRow
from lagotto.stores.writing import take_numbers
from lagotto.terms.features import deletion_pairs

_NEW_TERMS = text(
    "SELECT new FROM unnest(cast(:terms as text[])) AS new "
    "WHERE NOT EXISTS (SELECT 1 FROM term WHERE term.text = new)"
)


def findable_keys(connection: Connection, *, since: int) -> ChunkKeys:
    """Keys of the chunks behind a change number that can be found, in order."""
    statement = select(ChunkRow.key).where(ChunkRow.key > since, ChunkRow.level != "parent")
    keys = connection.scalars(statement.order_by(ChunkRow.key)).all()
    return np.array(keys, np.int64)


def add_segment(connection: Connection, segment: Segment, keys: ChunkKeys) -> None:
    """Index the chunks of a segment under their keys."""
    if not len(keys):
        return
    number = take_segment_number(connection)
    connection.execute(insert(SegmentRow).values(number=number, chunks=len(keys)))
    places = (
        (integer(key), integer(chunk.length), chunk.places)
        for key, chunk in zip(keys.tolist(), segment.chunks, strict=True)
    )
    copy_encoded(connection, "chunk_terms", ("chunk_key", "length", "terms"), places)
    add_postings(connection, number, segment.rows(keys))
    _add_terms(connection, segment.terms)
    _count(connection, chunks=len(keys), terms=sum(chunk.length for chunk in segment.chunks))


def add_postings(connection: Connection, segment: int, rows: Iterable[tuple[str, bytes]]) -> None:
    """Store the postings of terms in a segment."""
    number = integer(segment)
    encoded = ((term.encode(), number, records) for term, records in rows)
    copy_encoded(connection, "posting", ("term", "segment", "records"), encoded)


def take_segment_number(connection: Connection) -> int:
    """A number that no segment has had."""
    return take_numbers(connection, "segment", 1)


def forget(connection: Connection, document_keys: Sequence[int]) -> None:
    """Let go of the chunks of documents that are about to be removed."""
    if not document_keys:
        return
    theirs = (
        select(ChunkTermsRow.chunk_key)
        .join(ChunkRow, ChunkRow.key == ChunkTermsRow.chunk_key)
        .where(ChunkRow.document_key.in_(document_keys))
    )
    sums = theirs.with_only_columns(func.count(), func.coalesce(func.sum(ChunkTermsRow.length), 0))
    chunks, terms = connection.execute(sums).one()
    connection.execute(insert(GoneRow).from_select(["chunk_key"], theirs))
    _count(connection, chunks=-chunks, terms=-int(terms))


def _add_terms(connection: Connection, terms: Sequence[str]) -> None:
    new = list(connection.scalars(_NEW_TERMS, {"terms": list(terms)}))
    hashes, owners = deletion_pairs(new)
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(1, len(new)))
    shapes = np.split(hashes[order].view(np.int64), bounds)
    pairs = zip(new, shapes, strict=True) if new else ()
    rows = ((term.encode(), array_bytes(some)) for term, some in pairs)
    copy_encoded(connection, "term", ("text", "shapes"), rows)


def _count(connection: Connection, *, chunks: int, terms: int) -> None:
    take_numbers(connection, "indexed_chunks", chunks)
    take_numbers(connection, "indexed_terms", terms)
