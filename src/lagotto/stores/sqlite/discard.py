"""Take back the creation of a base."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from lagotto.indexes.folder import usual_folder
from lagotto.stores.sqlite.database import APPLICATION_ID


def discard_if_empty(path: Path) -> bool:
    """Delete the file of a closed base that never had a document, unless it is in use.

    Whoever has the file open keeps its exclusive lock from being taken.
    """
    if usual_folder(path).exists():
        return False
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as file:
            file.execute("PRAGMA locking_mode = EXCLUSIVE")
            file.execute("PRAGMA journal_mode = DELETE")  # no -wal beside a file that is gone
            file.execute("BEGIN EXCLUSIVE")
            is_empty = _never_had_a_document(file)
            if is_empty:
                path.unlink()
    except sqlite3.Error:  # in use, or no base
        return False
    return is_empty


def _never_had_a_document(file: sqlite3.Connection) -> bool:
    (application,) = file.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        return False
    (used,) = file.execute(
        "SELECT (SELECT count(*) FROM document) + (SELECT max(value) FROM counter)"
    ).fetchone()
    return bool(used == 0)
