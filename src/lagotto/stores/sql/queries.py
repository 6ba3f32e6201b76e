"""Queries that a connection runs with SQLAlchemy or without; documents by name, settings."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from lagotto.documents import Document
from lagotto.indexes.base import IndexState
from lagotto.stores.base import BaseConfig, StoreInfo

if TYPE_CHECKING:
    from sqlalchemy import Connection, Executable


COMPILED_FILE = Path(__file__).with_name("compiled_queries.json")

SEPARATOR = ","
"""Between values that a query gives as one string."""

ReadConnection: TypeAlias = "Connection | PlainConnection"
"""A connection that queries can run on."""


class CompiledQuery(NamedTuple):
    """A query for SQLite: parameters are written `:name`, a list of values is a JSON array."""

    sql: str
    constants: Mapping[str, Any] = {}
    """Parameters whose values belong to the query."""
    json_columns: Sequence[int] = ()
    """Indexes of the columns of a row that hold JSON."""


class QueryResult(NamedTuple):
    """The names of the columns, and the rows."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]


class PlainConnection(ABC):
    """A connection that needs no SQLAlchemy."""

    @abstractmethod
    def ask(self, query: CompiledQuery, values: Mapping[str, Any]) -> QueryResult:
        """Run a query with the values of its parameters."""


class Query(ABC):
    """A statement that reads; `values` are those of its parameters."""

    @property
    @abstractmethod
    def statement(self) -> Executable:
        """The query for SQLAlchemy, whatever the database."""

    @property
    @abstractmethod
    def compiled(self) -> CompiledQuery:
        """The query for SQLite."""

    def rows(self, connection: ReadConnection, /, **values: Any) -> Sequence[Sequence[Any]]:
        """All rows, each with its values in the order of the columns."""
        return self._ask(connection, values).rows

    def records(self, connection: ReadConnection, /, **values: Any) -> list[dict[str, Any]]:
        """All rows, by the names of their columns."""
        names, rows = self._ask(connection, values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def column(self, connection: ReadConnection, /, **values: Any) -> list[Any]:
        """The first value of every row."""
        return [row[0] for row in self.rows(connection, **values)]

    def scalar(self, connection: ReadConnection, /, **values: Any) -> Any:
        """The first value of the first row, None if there is no row."""
        rows = self.rows(connection, **values)
        return rows[0][0] if rows else None

    def _ask(self, connection: ReadConnection, values: Mapping[str, Any]) -> QueryResult:
        if isinstance(connection, PlainConnection):
            return connection.ask(self.compiled, values)
        result = connection.execute(self.statement, values)
        return QueryResult(tuple(result.keys()), result.all())


@dataclass(frozen=True, slots=True)
class NamedQuery(Query):
    """The query of this name in `statements`."""

    name: str

    @property
    def statement(self) -> Executable:
        from lagotto.stores.sql import statements

        statement: Executable = getattr(statements, self.name)
        return statement

    @property
    def compiled(self) -> CompiledQuery:
        return _compiled_queries()[self.name]


@dataclass(frozen=True, slots=True)
class SqlText(Query):
    """A query that SQLAlchemy has no expressions for, such as one of FTS5."""

    sql: str

    @property
    def statement(self) -> Executable:
        from sqlalchemy import text

        return text(self.sql)

    @property
    def compiled(self) -> CompiledQuery:
        return CompiledQuery(self.sql)


@cache
def _compiled_queries() -> dict[str, CompiledQuery]:
    found = json.loads(COMPILED_FILE.read_text(encoding="utf-8"))
    return {name: CompiledQuery(**query) for name, query in found.items()}


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


CONFIG = tuple(BaseConfig.model_fields)
"""The settings that say what a base was made with."""

_SETTING = NamedQuery("SETTING")
_SETTINGS = NamedQuery("SETTINGS")
_COLLECTION_SIZES = NamedQuery("COLLECTION_SIZES")
_LANGUAGES = NamedQuery("KNOWN_LANGUAGES")
_OF_UNKNOWN_LANGUAGE = NamedQuery("OF_UNKNOWN_LANGUAGE")
_CHUNKS = NamedQuery("FINDABLE_CHUNKS")


def setting(connection: ReadConnection, name: str) -> str | None:
    """A setting of the base, None if it is not set."""
    value: str | None = _SETTING.scalar(connection, name=name)
    return value


def read_config(connection: ReadConnection) -> BaseConfig:
    """What the chunks and vectors of the base were made with."""
    rows = _SETTINGS.rows(connection, names=CONFIG)
    return BaseConfig.model_validate(dict(map(tuple, rows)))


def read_info(
    connection: ReadConnection,
    *,
    location: str,
    bytes_on_disk: int,
    indexes: Iterable[IndexState],
) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    collections = dict(map(tuple, _COLLECTION_SIZES.rows(connection)))
    config = read_config(connection)
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=_CHUNKS.scalar(connection),
        collections=dict(sorted(collections.items())),
        languages=tuple(sorted(name for name in _LANGUAGES.column(connection) if name)),
        of_unknown_language=_OF_UNKNOWN_LANGUAGE.scalar(connection),
        **config.model_dump(exclude={"generation", "unfinished_copy_of"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )
