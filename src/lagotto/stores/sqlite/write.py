"""Documents written to a base in a file, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from lagotto.documents import Document
from lagotto.filters import Filter
from lagotto.indexes.base import LogPosition, PreparedTexts, TextIndex
from lagotto.stores.base import Entry
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.matching import matching_names
from lagotto.stores.sql.names import document_keys
from lagotto.stores.sql.read import counter
from lagotto.stores.sql.write import (
    Numbering,
    note_change,
    note_removals,
    number_entries,
    remove_documents,
    update_documents,
    write_entries,
)
from lagotto.stores.sql.write_settings import check_config

Index = TextIndex[SqlChangeLog]


def write(
    connection: Connection,
    entries: Sequence[Entry],
    *,
    index: Index,
    prepared: PreparedTexts,
    numbering: Numbering | None,
    place: str,
) -> None:
    """Replace documents, with all that is derived from them."""
    check_config(connection, entries, place)
    former = document_keys(connection, [entry.document for entry in entries])
    before = counter(connection, "change")
    _remove(connection, list(former.values()), index)
    numbers = (numbering or number_entries)(connection, entries)
    write_entries(connection, entries, numbers=numbers)
    last = LogPosition(counter(connection, "change"), 0)
    index.add_chunks(SqlChangeLog(connection, head=last), since=before, prepared=prepared)
    note_change(connection)


def update(connection: Connection, documents: Sequence[Document]) -> None:
    """Store other metadata for documents."""
    update_documents(connection, documents)
    note_change(connection)


def delete(connection: Connection, where: Filter, *, index: Index) -> list[str]:
    """Delete the documents that match; their ids."""
    found = matching_names(connection, where)
    _remove(connection, [document.key for document in found], index)
    if found:
        note_change(connection)
    return [document.id for document in found]


def _remove(connection: Connection, keys: Sequence[int], index: Index) -> None:
    index.remove_documents(SqlChangeLog(connection), keys)
    note_removals(connection, keys)
    remove_documents(connection, keys)
