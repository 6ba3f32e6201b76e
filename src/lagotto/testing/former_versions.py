"""Statements that make a base of the present version one of an earlier version."""

from __future__ import annotations

from typing import Literal

from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.migrations import v0008

Dialect = Literal["sqlite", "postgresql"]

FORGET_CHOICES = "DELETE FROM setting WHERE name IN ('embedder', 'pooling', 'chunker_id')"
"""Before version 5 a base did not remember them."""

UNDO: dict[int, tuple[str, ...]] = {
    11: ("DROP TABLE metadata_update",),
    10: ("DROP TABLE keyed_value",),
    9: ("ALTER TABLE embedding DROP COLUMN created_at",),
    8: tuple(f"ALTER TABLE chunk DROP COLUMN {name}" for name in v0008.COLUMNS),
    6: ("DROP TABLE source_file",),
    5: ("ALTER TABLE chunk_set ADD COLUMN expires_at TEXT", FORGET_CHOICES),
    4: ("DROP TABLE history",),
    3: ("DROP INDEX chunk_by_set",),
    2: ("DROP TABLE chunk_cache",),
}
"""By the version whose changes they undo."""

OF_DIALECT: dict[str, dict[int, tuple[str, ...]]] = {
    "sqlite": {7: ("DROP TABLE chunk_text",)},
    "postgresql": {
        7: ("DELETE FROM chunk_text WHERE chunk_key % 2 = 0",),
        3: ("DROP TABLE chunk_text",),
    },
}


def undo(version: int, dialect: Dialect) -> list[str]:
    """The statements that lead from the present version back to `version`."""
    statements: list[str] = []
    for number in range(SCHEMA_VERSION, version, -1):
        statements += (*UNDO.get(number, ()), *OF_DIALECT[dialect].get(number, ()))
    if dialect == "sqlite":
        return [*statements, f"PRAGMA user_version = {version}"]
    return [*statements, f"UPDATE setting SET value = '{version}' WHERE name = 'schema_version'"]
