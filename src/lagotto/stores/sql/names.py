"""Documents by collection and id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from lagotto.documents import Document
from lagotto.stores.sql.queries import NamedQuery, ReadConnection

T = TypeVar("T")

AT_ONCE = 500
"""How many values go into one query."""

MOST_PAIRS = 5_000
"""How many pairs of a collection and an id one query looks up; see `asked_names`."""

_KEYS = NamedQuery("DOCUMENT_KEYS")


def in_batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in as many as go into one query."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def name_batches(names: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Names in as many as go into one query: fewer if they are of many collections."""
    batch: list[tuple[str, str]] = []
    collections: set[str] = set()
    for name in sorted(set(names)):
        collections.add(name[0])
        if len(batch) == AT_ONCE or len(collections) * (len(batch) + 1) > MOST_PAIRS:
            yield batch
            batch, collections = [], {name[0]}
        batch.append(name)
    if batch:
        yield batch


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
    for some in name_batches(names):
        rows = _KEYS.rows(connection, **asked_names(some))
        found |= {(collection, name): key for collection, name, key in rows}
    return {name: found[name] for name in names if name in found}
