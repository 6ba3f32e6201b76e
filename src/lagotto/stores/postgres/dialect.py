"""What PostgreSQL makes of the shared tables: vectors, exact numbers, texts of chunks.

The shared SQL knows nothing of this; importing this module registers it with SQLAlchemy.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler

from lagotto.stores.postgres.adapters import VectorParameter
from lagotto.stores.sql.read import TextOfChunk, cut_out
from lagotto.stores.sql.tables import BIND, Number, StoredVector

DIALECT = "postgresql"

_KEPT = "SELECT chunk_text.text FROM chunk_text WHERE chunk_text.chunk_key = chunk.key"


def _exact(number: float | None) -> Decimal | None:
    """PostgreSQL would round a numeric to compare it with a float."""
    return None if number is None else Decimal(number)


BIND[Number, DIALECT] = _exact
BIND[StoredVector, DIALECT] = VectorParameter.of_bytes


@compiles(StoredVector, DIALECT)
def _vector(_type: StoredVector, _compiler: DDLCompiler, **_how: Any) -> str:
    """pgvector's type."""
    return "vector"


@compiles(TextOfChunk, DIALECT)
def _kept(element: TextOfChunk, compiler: SQLCompiler, **how: Any) -> str:
    """The text that is kept beside the chunk, which takes less time than cutting it out."""
    return f"coalesce(({_KEPT}), {cut_out(element, compiler, **how)})"
