"""What SQLite and PostgreSQL share: tables, rows, reads, writes, filters, the change log."""

from lagotto.errors import NotABaseError

SCHEMA_VERSION = 1
"""The version of the tables; `migrations` brings older ones up to date."""


def check_version(version: int, place: str) -> None:
    """Raise unless this version of Lagotto can read a schema, or bring it up to date."""
    if version < 0:
        raise NotABaseError(f"{place} has the schema {version}, of no Lagotto; restore a backup")
    if version > SCHEMA_VERSION:
        raise NotABaseError(
            f"{place} was made by a newer Lagotto (schema {version}, this one supports "
            f"{SCHEMA_VERSION}); upgrade Lagotto to open it"
        )


def before_release(place: str) -> NotABaseError:
    """The error for a base that was made before the first release."""
    return NotABaseError(
        f"{place} was made by a development version of Lagotto, before schema 1; take its "
        "documents out with that version (`lagotto export documents.jsonl`), and add them to a new "
        "base with this one (`lagotto import documents.jsonl`)"
    )
