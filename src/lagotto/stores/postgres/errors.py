"""Errors of the server and the connection, as StoreErrors with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft

from lagotto.errors import (
    ConfigError,
    NotABaseError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

EXTENSIONS = {"vector": "0.8.0", "pg_trgm": "1.6"}
"""The extensions that a database needs, and their least versions."""


@contextmanager
def postgres_errors(place: str) -> Iterator[None]:
    """Translate errors of psycopg and SQLAlchemy into StoreErrors."""
    try:
        yield
    except NoConnectionLeft as exc:
        raise StoreBusyError(
            f"{place}: too many searches at once, all connections are in use; try again later, or "
            "raise max_connections=... in the address"
        ) from exc
    except UnicodeEncodeError as exc:
        raise ConfigError(f"{place}: {exc.object!r:.100} is not valid Unicode text") from exc
    except DBAPIError as exc:
        if not isinstance(exc.orig, psycopg.Error):
            raise
        raise _explained(place, exc.orig) from exc
    except psycopg.Error as exc:
        raise _explained(place, exc) from exc


def _explained(place: str, error: psycopg.Error) -> StoreError:
    said = " ".join(str(error).split())
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnlyError(
            f"{place}: {said}; ask the owner of the database to grant the privilege"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreReadOnlyError(f"{place} can only be read: {said}; write to the primary server")
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusyError(f"{place}: another process is writing; try again when it has ended")
    if isinstance(error, errors.QueryCanceled):
        return StoreBusyError(
            f"{place}: the server ended a query ({said}); give the search more time, or raise the "
            "server's statement_timeout"
        )
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return StoreBusyError(f"{place}: another transaction interfered ({said}); try again")
    if isinstance(error, errors.DiskFull):
        return StoreFullError(
            f"{place}: the server's disk is full ({said}); free some space and add the documents "
            "again (what was stored before is safe)"
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return NotABaseError(f"{place} is not a Lagotto base any more: {said}; open it again")
    if _is_unavailable(error):
        return StoreUnavailableError(
            f"{place} can't be reached: {said}; check the address and that the server is running, "
            "then try again (what was stored before is safe)"
        )
    return StoreError(f"{place}: {said}")


def _is_unavailable(error: psycopg.Error) -> bool:
    """A failed connection has no SQLSTATE; a broken one has class 08 or 57P."""
    state = error.sqlstate or ""
    if isinstance(error, psycopg.OperationalError) and not state:
        return True
    return state.startswith(("08", "57P", "53300"))


def missing_extension(place: str, name: str, error: psycopg.Error) -> StoreError:
    """The error for an extension that this user may not add, or that the server lacks."""
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnlyError(
            f"{place}: the extension {name} is missing, and this user may not add it; have an "
            f"administrator run in this database: CREATE EXTENSION {name};"
        )
    package = "pgvector" if name == "vector" else "postgresql-contrib"
    return StoreError(
        f"{place}: the server doesn't have the extension {name} ({str(error).strip()}); install "
        f"{package} on the server, then run: CREATE EXTENSION {name};"
    )


def old_extension(place: str, name: str, version: str) -> StoreError:
    """The error for an extension that is too old."""
    return StoreError(
        f"{place}: the extension {name} has version {version}, but {EXTENSIONS[name]} is needed; "
        f"install a newer version on the server, then run: ALTER EXTENSION {name} UPDATE;"
    )
