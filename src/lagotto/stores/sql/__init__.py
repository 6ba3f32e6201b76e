"""What SQLite and PostgreSQL share: tables, rows, reads, writes, filters, the change log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lagotto.errors import NotABaseError

if TYPE_CHECKING:
    from lagotto.stores.sql.statements import WriteConnection

SCHEMA_VERSION = 2
"""The version of the tables; `migrate` brings older ones up to date."""


def _add_context(connection: WriteConnection) -> None:
    collation = ' COLLATE "C"' if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"ALTER TABLE chunk ADD COLUMN context TEXT{collation}", ())


STEPS: dict[int, Callable[[WriteConnection], None]] = {2: _add_context}
"""Changes of the schema, by the version that they make. A new base is made as it is now; an older
one goes step by step. To change the schema: raise SCHEMA_VERSION, and add the step that makes a
base of the version before one of this version, whatever the dialect. A step describes its tables
itself, since `tables.py` goes on changing."""


def migrate(connection: WriteConnection, version: int, *, target: int = SCHEMA_VERSION) -> None:
    """Bring a base of `version` to `target`, within the caller's transaction."""
    for step in range(version + 1, target + 1):
        STEPS[step](connection)


def check_version(version: int, location: str) -> None:
    """Raise unless this version of Lagotto can read a schema, or bring it up to date."""
    if version < 0:
        raise NotABaseError(f"{location} has the schema {version}, of no Lagotto; restore a backup")
    if version > SCHEMA_VERSION:
        raise NotABaseError(
            f"{location} was made by a newer Lagotto (schema {version}, this one supports "
            f"{SCHEMA_VERSION}); upgrade Lagotto to open it"
        )


def before_release(location: str) -> NotABaseError:
    """The error for a base that was made before the first release."""
    return NotABaseError(
        f"{location} was made by a development version of Lagotto, before schema 1; take its "
        "documents out with that version (`lagotto export documents.jsonl`), and add them to a new "
        "base with this one (`lagotto import documents.jsonl`)"
    )
