"""Documents by name, and the settings and the size of a base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from lagotto.documents import Document
from lagotto.indexes.base import IndexState
from lagotto.stores.base import BaseConfig, StoreInfo
from lagotto.stores.sql import statements
from lagotto.stores.sql.statements import ReadConnection

T = TypeVar("T")

AT_ONCE = 500
"""How many values go into one query."""

MOST_PAIRS = 5_000
"""How many pairs of a collection and an id one query looks up; see `asked_names`."""


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
        rows = statements.DOCUMENT_KEYS.rows(connection, **asked_names(some))
        found |= {(collection, name): key for collection, name, _, key in rows}
    return {name: found[name] for name in names if name in found}


CONFIG = tuple(BaseConfig.model_fields)
"""The settings that say what a base was made with."""


def setting(connection: ReadConnection, name: str) -> str | None:
    """A setting of the base, None if it is not set."""
    value: str | None = statements.SETTING.scalar(connection, name=name)
    return value


def read_config(connection: ReadConnection) -> BaseConfig:
    """What the chunks and vectors of the base were made with."""
    rows = statements.SETTINGS.rows(connection, names=CONFIG)
    return BaseConfig.model_validate(dict(map(tuple, rows)))


def read_info(
    connection: ReadConnection,
    *,
    location: str,
    bytes_on_disk: int,
    indexes: Iterable[IndexState],
) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    collections = dict(map(tuple, statements.COLLECTION_SIZES.rows(connection)))
    config = read_config(connection)
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=statements.FINDABLE_CHUNKS.scalar(connection),
        collections=dict(sorted(collections.items())),
        languages=tuple(
            sorted(name for name in statements.KNOWN_LANGUAGES.column(connection) if name)
        ),
        of_unknown_language=statements.OF_UNKNOWN_LANGUAGE.scalar(connection),
        **config.model_dump(exclude={"generation", "unfinished_copy_of"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )
