"""Writing, updating and removing documents and all that is derived from them, in one transaction.

The caller holds the locks of the documents. Numbers are taken beforehand, in a transaction of their
own, since taking them blocks other writers until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from lagotto.documents import Document
from lagotto.filters import Filter
from lagotto.stores.base import Entry
from lagotto.stores.postgres.bulk_copy import copy_rows
from lagotto.stores.postgres.locks import Name
from lagotto.stores.postgres.text_index.postings import PostingSegment
from lagotto.stores.postgres.text_index.write import (
    Counts,
    add_segment,
    conclude,
    count_chunks,
    findable_keys,
    forget,
    take_segment_number,
)
from lagotto.stores.sql.matching import matching_names
from lagotto.stores.sql.names import document_keys
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.write import (
    Numbers,
    note_removals,
    number_entries,
    remove_documents,
    update_documents,
    write_entries,
)
from lagotto.stores.sql.write_settings import check_config

# The commit that uses the numbers also flushes this one.
_SOON = text("SET LOCAL synchronous_commit = off")


@dataclass(frozen=True, slots=True)
class Reserved:
    """Numbers for entries and their segment; `first`: the base has no model yet."""

    numbers: Numbers
    segment: int
    first: bool


def reserve(connection: Connection, entries: Sequence[Entry]) -> Reserved:
    """Take the numbers that entries need, always in this order, so that writers can't deadlock."""
    connection.execute(_SOON)
    first = setting(connection, "model_id") is None
    return Reserved(number_entries(connection, entries), take_segment_number(connection), first)


def reserve_segment(connection: Connection) -> int:
    """Take the number of a segment."""
    connection.execute(_SOON)
    return take_segment_number(connection)


def names_of(documents: Collection[Document]) -> set[Name]:
    """The names to lock for documents."""
    return {(document.collection, document.id) for document in documents}


def replace(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    segment: PostingSegment,
    reserved: Reserved,
    place: str,
) -> None:
    """Store entries, replacing former versions of their documents."""
    check_config(connection, entries, place)
    former = document_keys(connection, [entry.document for entry in entries])
    gone = _remove(connection, list(former.values()))
    write_entries(connection, entries, numbers=reserved.numbers, put=copy_rows)
    keys = findable_keys(entries, reserved.numbers.chunks)
    added = add_segment(connection, reserved.segment, segment, keys)
    conclude(connection, added + -gone)


def replace_in_order(
    connection: Connection, entries: Sequence[Entry], *, segment: PostingSegment | None, place: str
) -> None:
    """Store entries as `replace` does, in a base whose indexes follow the change log.

    The caller is the only writer until the commit, so that changes are committed in the order of
    their numbers. `segment` is None if words are indexed elsewhere.
    """
    check_config(connection, entries, place)
    former = document_keys(connection, [entry.document for entry in entries])
    gone = _remove_in_order(connection, list(former.values()))
    numbers = number_entries(connection, entries)
    write_entries(connection, entries, numbers=numbers, put=copy_rows)
    keys = findable_keys(entries, numbers.chunks)
    added = Counts(len(keys))
    if segment is not None:
        added = add_segment(connection, take_segment_number(connection), segment, keys)
    conclude(connection, added + -gone)


def change_metadata(connection: Connection, documents: Sequence[Document]) -> None:
    """Replace the metadata of documents."""
    update_documents(connection, documents)
    conclude(connection)


def names_to_remove(connection: Connection, where: Filter) -> set[Name]:
    """Names of the documents that match."""
    found = matching_names(connection, where)
    return {(document.collection, document.id) for document in found}


def remove(
    connection: Connection, where: Filter, names: Collection[Name], *, in_order: bool = False
) -> list[str]:
    """Remove the named documents that still match; return their ids.

    `in_order` notes the removals in the change log: the caller is the only writer.
    """
    found = [
        document
        for document in matching_names(connection, where)
        if (document.collection, document.id) in names
    ]
    if found:
        take_away = _remove_in_order if in_order else _remove
        conclude(connection, -take_away(connection, [document.key for document in found]))
    return [document.id for document in found]


def _remove(connection: Connection, keys: Sequence[int]) -> Counts:
    gone = forget(connection, keys)
    remove_documents(connection, keys)
    return gone


def _remove_in_order(connection: Connection, keys: Sequence[int]) -> Counts:
    chunks = count_chunks(connection, keys)
    note_removals(connection, keys)
    return Counts(chunks, _remove(connection, keys).terms)
