"""What SQLite says is wrong, as errors that say what to do."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lagotto.errors import (
    ConfigError,
    EmbeddingError,
    NotABaseError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)

SHOWN = 100
"""Characters of a problem with the file that an error shows."""


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into StoreErrors that say what to do."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _explained(path, exc) from exc


@contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of rows, such as invalid JSON, into a StoreError."""
    try:
        yield
    except ConfigError:
        raise
    except UnicodeEncodeError as exc:  # of a parameter: what is read would not decode
        raise ConfigError(f"{path}: {exc.object!r:.100} is not valid Unicode text") from exc
    except (ValueError, EmbeddingError) as exc:
        raise damaged(path, exc) from exc


def _explained(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if is_busy(error):
        return StoreBusyError(f"{path}: another process is writing; try again when it has ended")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE")):  # the latter also for a quota
        return StoreFullError(
            f"{path}: the disk is full ({error}); free some space and add the documents again "
            "(what was stored before is safe)"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreReadOnlyError(
            f"{path} can't be opened for writing ({error}); a base needs permission to write to "
            "its file and its folder"
        )
    if name.startswith("SQLITE_NOTADB"):
        return NotABaseError(f"{path} is not a Lagotto base: {error}; choose another name")
    if name.startswith("SQLITE_CORRUPT") or "decode to UTF-8" in str(error):
        return damaged(path, error)
    return StoreError(f"{path}: {error}")


def damaged(path: Path, problem: Exception) -> StoreDamagedError:
    """The error for a damaged file."""
    return StoreDamagedError(f"{path} is damaged ({str(problem)[:SHOWN]}); {ways_out(path)}")


def ways_out(path: Path) -> str:
    """What to do with a damaged file; never to delete it, since it may be the only copy."""
    return (
        "restore it from a backup, or save what can be read of it in another file: "
        f"`sqlite3 {shlex.quote(str(path))} .recover | sqlite3 recovered.db`"
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has the lock of the file."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
