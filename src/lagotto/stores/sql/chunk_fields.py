"""The fields of chunks as filters see them, for indexes that search through filters themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lagotto.documents import JsonScalar
from lagotto.indexes.base import ChunkFields, ChunkKeys
from lagotto.stores.sql.names import in_batches
from lagotto.stores.sql.queries import NamedQuery, ReadConnection

Values = dict[str, tuple[JsonScalar, ...]]

_CHUNKS = NamedQuery("CHUNK_PAGES")
_OWN = NamedQuery("OWN_FIELDS")
_ATTRIBUTES = NamedQuery("ATTRIBUTES")


def read_fields(connection: ReadConnection, keys: ChunkKeys) -> list[ChunkFields]:
    """The fields of those of `keys` that can be found."""
    chunks = [
        row for some in in_batches(keys.tolist()) for row in _CHUNKS.rows(connection, keys=some)
    ]
    documents: dict[int, Values] = {}
    for some in in_batches(sorted({owner for _, owner, _, _ in chunks})):
        documents |= _documents(connection, some)
    return [
        ChunkFields(
            key, str(documents[owner]["collection"][0]), documents[owner] | _pages(first, last)
        )
        for key, owner, first, last in chunks
    ]


def _documents(connection: ReadConnection, keys: Sequence[int]) -> dict[int, Values]:
    found: dict[int, Values] = {
        record.pop("key"): {name: (value,) for name, value in record.items() if value is not None}
        for record in _OWN.records(connection, keys=keys)
    }
    values: dict[tuple[int, str], list[JsonScalar]] = defaultdict(list)
    for owner, field, kind, text, number in _ATTRIBUTES.rows(connection, keys=keys):
        values[owner, field].append(str(text) if kind == "text" else _number(kind, number))
    for (document, field), some in values.items():
        found[document][field] = tuple(some)
    return found


def _number(kind: str, number: Any) -> JsonScalar:
    if kind == "boolean":
        return bool(number)
    if isinstance(number, int | float):
        return number
    return int(number) if number == int(number) else float(number)  # a driver's decimal


def _pages(first: int | None, last: int | None) -> Values:
    return {} if first is None or last is None else {"page": tuple(range(first, last + 1))}
