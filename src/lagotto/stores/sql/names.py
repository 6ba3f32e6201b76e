"""Documents by collection and id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from lagotto.documents import Document
from lagotto.stores.sql.queries import NamedQuery, ReadConnection

T = TypeVar("T")

AT_ONCE = 500
"""How many values go into one query."""

_KEYS = NamedQuery("DOCUMENT_KEYS")


def in_batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in as many as go into one query."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def asked_names(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The parameters of a query for documents by name.

    It also finds documents that have the id of one name and the collection of another.
    """
    wanted = set(names)
    collections = sorted({collection for collection, _ in wanted})
    return {"collections": collections, "ids": sorted({name for _, name in wanted})}


def document_keys(
    connection: ReadConnection, documents: Iterable[Document]
) -> dict[tuple[str, str], int]:
    """The keys of those documents that are stored."""
    return keys_by_name(connection, [(item.collection, item.id) for item in documents])


def keys_by_name(
    connection: ReadConnection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """The keys of the documents with these collections and ids."""
    found: dict[tuple[str, str], int] = {}
    for some in in_batches(sorted(set(names))):
        rows = _KEYS.rows(connection, **asked_names(some))
        found |= {(collection, name): key for collection, name, key in rows}
    return {name: found[name] for name in names if name in found}
