"""Queries compiled for SQLite: `python -m lagotto.stores.sql.query_compiler` writes the named ones.

One whose conditions are only known at a search, a filter, is compiled then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, BindParameter, Select
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from lagotto.stores.sql import statements
from lagotto.stores.sql.queries import COMPILED_FILE, CompiledQuery, Query

_DIALECT = SQLiteDialect_pysqlite(paramstyle="named")


@dataclass(frozen=True, slots=True)
class ExpressionQuery(Query):
    """A query made of an expression."""

    expression: Select[Any]

    @property
    def statement(self) -> Select[Any]:
        return self.expression

    @property
    def compiled(self) -> CompiledQuery:
        return compile_query(self.expression)


def compile_query(statement: Select[Any]) -> CompiledQuery:
    """What SQLite is asked for a statement."""
    compiled = statement.compile(dialect=_DIALECT)
    binds = compiled.bind_names.items()
    constants = {name: _bound(bind) for bind, name in binds if not bind.required}
    columns = enumerate(statement.selected_columns)
    json_columns = [index for index, column in columns if isinstance(column.type, JSON)]
    return CompiledQuery(str(compiled), constants, json_columns)


def _bound(bind: BindParameter[Any]) -> Any:
    """The value of a parameter, as its type gives it to the driver."""
    process = bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT)
    return process(bind.effective_value) if process else bind.effective_value


def compiled_queries() -> str:
    """All named queries, as the file has them."""
    named = {
        name: compile_query(statement)._asdict()
        for name, statement in vars(statements).items()
        if isinstance(statement, Select) and not name.startswith("_")
    }
    return json.dumps(named, indent=1) + "\n"


if __name__ == "__main__":
    COMPILED_FILE.write_text(compiled_queries(), encoding="utf-8")
