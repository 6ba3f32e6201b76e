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
    findable_keys,
    forget,
    take_segment_number,
)
from lagotto.stores.sql.names import document_keys
from lagotto.stores.sql.read import matching_names
from lagotto.stores.sql.settings import check_config, setting
from lagotto.stores.sql.write import (
    Numbers,
    number_entries,
    remove_documents,
    update_documents,
    write_entries,
)

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


def change_metadata(connection: Connection, documents: Sequence[Document]) -> None:
    """Replace the metadata of documents."""
    update_documents(connection, documents)
    conclude(connection)


def names_to_remove(connection: Connection, where: Filter) -> set[Name]:
    """Names of the documents that match."""
    found = matching_names(connection, where)
    return {(document.collection, document.id) for document in found}


def remove(connection: Connection, where: Filter, names: Collection[Name]) -> list[str]:
    """Remove the named documents that still match; return their ids."""
    found = [
        document
        for document in matching_names(connection, where)
        if (document.collection, document.id) in names
    ]
    if found:
        conclude(connection, -_remove(connection, [document.key for document in found]))
    return [document.id for document in found]


def _remove(connection: Connection, keys: Sequence[int]) -> Counts:
    gone = forget(connection, keys)
    remove_documents(connection, keys)
    return gone
