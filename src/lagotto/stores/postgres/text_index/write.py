"""Updating the full-text index in the transaction that writes or removes the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, insert, text

from lagotto.indexes.base import ChunkKeys
from lagotto.stores.base import Entry
from lagotto.stores.postgres.bulk_copy import copy_encoded, integer
from lagotto.stores.postgres.chunk_words import keep_words
from lagotto.stores.postgres.tables import SegmentRow
from lagotto.stores.postgres.text_index.postings import PostingSegment
from lagotto.stores.sql.write import note_change, take_numbers
from lagotto.terms.compounds import JOINER
from lagotto.terms.features import deletion_pairs

_NEW_TERMS = text(
    "SELECT new FROM unnest(cast(:terms AS text[])) AS new "
    "WHERE NOT EXISTS (SELECT 1 FROM term WHERE term.text = new)"
)
_ADD_TERMS = text(
    "INSERT INTO term (text, shapes) SELECT new, cast(shapes AS bigint[]) "
    "FROM unnest(cast(:terms AS text[]), cast(:shapes AS text[])) AS added (new, shapes) "
    "ON CONFLICT DO NOTHING"
)
_FORGET = text("""
WITH theirs AS (
    SELECT chunk_key, length FROM chunk_terms JOIN chunk ON chunk.key = chunk_key
    WHERE document_key = ANY(cast(:documents AS bigint[]))
), noted AS (INSERT INTO gone SELECT chunk_key FROM theirs)
SELECT count(*), coalesce(sum(length), 0) FROM theirs
""")
_CHUNKS_OF = text(
    "SELECT count(*) FROM chunk WHERE level != 'parent' "
    "AND document_key = ANY(cast(:documents AS bigint[]))"
)
_COUNT = text("""
UPDATE counter SET value = value + CASE name WHEN 'indexed_chunks' THEN :chunks ELSE :terms END
WHERE name IN ('indexed_chunks', 'indexed_terms')
""")


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of indexed chunks, and of their terms."""

    chunks: int = 0
    terms: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.chunks + other.chunks, self.terms + other.terms)

    def __neg__(self) -> Counts:
        return Counts(-self.chunks, -self.terms)


UNCHANGED = Counts()


def findable_keys(entries: Sequence[Entry], keys: range) -> ChunkKeys:
    """The keys of the findable chunks, in order."""
    levels = (chunk.level for entry in entries for chunk in entry.chunks)
    pairs = zip(keys, levels, strict=True)
    return np.array([key for key, level in pairs if level != "parent"], np.int64)


def add_segment(
    connection: Connection, number: int, segment: PostingSegment, keys: ChunkKeys
) -> Counts:
    """Index the chunks of a segment under their keys; return what was added."""
    if not len(keys):
        return UNCHANGED
    connection.execute(insert(SegmentRow).values(number=number, chunks=len(keys)))
    places = (
        (integer(key), integer(chunk.length), chunk.places)
        for key, chunk in zip(keys.tolist(), segment.chunks, strict=True)
    )
    copy_encoded(connection, "chunk_terms", ("chunk_key", "length", "terms"), places)
    keep_words(connection, keys.tolist(), segment.texts)
    add_postings(connection, number, segment.rows(keys))
    _add_terms(connection, segment.terms)
    return Counts(len(keys), sum(chunk.length for chunk in segment.chunks))


def add_postings(connection: Connection, segment: int, rows: Iterable[tuple[str, bytes]]) -> None:
    """Store the postings of terms in a segment."""
    number = integer(segment)
    encoded = ((term.encode(), number, records) for term, records in rows)
    copy_encoded(connection, "posting", ("term", "segment", "records"), encoded)


def take_segment_number(connection: Connection) -> int:
    """A number that no segment ever had."""
    return take_numbers(connection, "segment", 1)


def forget(connection: Connection, document_keys: Sequence[int]) -> Counts:
    """List the chunks of documents about to be removed as gone; return their counts."""
    if not document_keys:
        return UNCHANGED
    chunks, terms = connection.execute(_FORGET, {"documents": list(document_keys)}).one()
    return Counts(chunks, int(terms))


def count_chunks(connection: Connection, document_keys: Sequence[int]) -> int:
    """How many findable chunks documents have, whether their words are indexed here or not."""
    return connection.scalar(_CHUNKS_OF, {"documents": list(document_keys)}) or 0


def conclude(connection: Connection, change: Counts = UNCHANGED) -> None:
    """Record the change and update the statistics.

    Must be the last step of a transaction: from here on writers wait for each other.
    """
    note_change(connection)
    if change != Counts():
        connection.execute(_COUNT, {"chunks": change.chunks, "terms": change.terms})


def _add_terms(connection: Connection, terms: Sequence[str]) -> None:
    """Add new terms, in order, so that no two writers deadlock; no compounds, see Vocabulary."""
    words = [term for term in terms if JOINER not in term]
    new = sorted(connection.scalars(_NEW_TERMS, {"terms": words}))
    if not new:
        return
    hashes, owners = deletion_pairs(new)
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(1, len(new)))
    shapes = np.split(hashes[order].view(np.int64), bounds)
    literals = [f"{{{','.join(map(str, some.tolist()))}}}" for some in shapes]
    connection.execute(_ADD_TERMS, {"terms": new, "shapes": literals})
