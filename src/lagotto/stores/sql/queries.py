"""Queries that a connection can run with SQLAlchemy or without it.

To import SQLAlchemy and to compile its statements takes longer than a search in a small base. So
what a search reads is asked by named queries. Each is defined once, as an expression in
`statements`, for every database; `compiled_queries.json` has what these compile to for SQLite,
whose store runs that text itself. After a change of `statements`, `make queries` writes the file.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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
