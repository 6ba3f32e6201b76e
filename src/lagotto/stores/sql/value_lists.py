"""Comparisons with any number of values, which are one parameter.

A statement is the same then however many values it has. The functions compile to what SQLite has;
another dialect registers its own form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from sqlalchemy import Boolean, Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import UserDefinedType

from lagotto.stores.sql.tables import BIND

ListKind = Literal["text", "number", "key"]
"""Keys are integers; numbers may be any."""


class ValueList(UserDefinedType[Sequence[str | int | float]]):
    """Any number of values as one parameter: a JSON array, unless a dialect has arrays."""

    cache_ok = True

    def __init__(self, kind: ListKind) -> None:
        self.kind = kind

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return BIND.get((ValueList, dialect.name), json.dumps)


class IsAmong(FunctionElement[bool]):
    """Whether the first, a column, equals one of the second, a ValueList."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: OperatorType | None = None) -> Self:
        """As it is: no index is used where SQLAlchemy compares the result with `true`."""
        return self


@compiles(IsAmong)
def _in_json(element: IsAmong, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"


class PageIsAmong(FunctionElement[bool]):
    """Whether a number of the third, a ValueList, lies between the first and the second."""

    type = Boolean()
    inherit_cache = True


@compiles(PageIsAmong)
def _between_json(element: PageIsAmong, compiler: SQLCompiler, **options: Any) -> str:
    first, last, values = (compiler.process(part, **options) for part in element.clauses)
    return f"EXISTS (SELECT 1 FROM json_each({values}) WHERE value BETWEEN {first} AND {last})"
