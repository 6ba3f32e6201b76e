"""What may be wrong with the file of a base and with the indexes beside it."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from lagotto.errors import StoreError
from lagotto.indexes.base import MEGABYTE, Finding
from lagotto.indexes.folder import IndexFolder, other_folders, size_of
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.generations import read_next
from lagotto.stores.sql.indexes import IndexPair
from lagotto.stores.sqlite.database import SHORT_TEXT, ways_out

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

MUCH_FREE = 0.25
"""The share of a file that may be unused before it is reported."""


def check_base(connection: Connection, store: SqliteStore) -> list[Finding]:
    """All that may be wrong; nobody opens the indexes if the file is damaged."""
    path, folder = store.path, store.indexes
    found = check_file(connection, path)
    if found[0].level == "problem":
        return found
    found += check_rows(connection, short=SHORT_TEXT)
    found += check_contents(connection, path)
    try:
        folder.refuse_links()
    except StoreError as exc:
        return [*found, Finding(level="problem", what=str(exc))]
    present = store.present_indexes(connection)
    found += store.search_indexes.check(SqlChangeLog(connection))
    following = read_next(connection)
    building = store.search_indexes.open_for(following) if following else IndexPair()
    indexes = (*present.by_role().values(), *building.by_role().values())
    used = {index.folder for index in indexes}
    return found + check_leftovers(folder, file=store.file, used=used)


def check_file(connection: Connection, path: Path) -> list[Finding]:
    """Whether the file is intact; if it is not, nothing else is checked."""
    said = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA quick_check")]
    if said == ["ok"]:
        return [Finding(level="ok", what=f"the file is intact, its schema is {SCHEMA_VERSION}")]
    more = f", and {len(said) - 1} more" if len(said) > 1 else ""
    what = f"{path} is damaged: {said[0]}{more}"
    return [Finding(level="problem", what=what, advice=ways_out(path))]


def check_contents(connection: Connection, path: Path) -> list[Finding]:
    """Orphaned rows and unused space."""
    return [
        *_orphans(connection),
        *_free_space(connection, path),
    ]


def check_leftovers(indexes: IndexFolder, *, file: Path, used: set[Path | None]) -> list[Finding]:
    """Indexes of other rules or bases, and what a killed process was about to remove."""
    unused = [path for path in indexes.indexes() if path not in used]
    unused += other_folders(indexes, file)
    if not unused:
        return []
    size = sum(map(size_of, unused)) / MEGABYTE
    names = " ".join(shlex.quote(str(path)) for path in sorted(unused))
    what = f"{len(unused)} index folders are not used any more ({size:.1f} MB)"
    return [Finding(level="note", what=what, advice=f"delete them: rm -r {names}")]


def _orphans(connection: Connection) -> list[Finding]:
    rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    tables = Counter(str(row[0]) for row in rows)
    if not tables:
        return []
    counts = ", ".join(f"{count} of {table}" for table, count in sorted(tables.items()))
    return [_copy_it(f"rows belong to documents or chunks that are not there: {counts}")]


def _free_space(connection: Connection, path: Path) -> list[Finding]:
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    if free * size < MEGABYTE or free < MUCH_FREE * pages:
        return []
    what = f"{free * size / MEGABYTE:.1f} MB of the file are unused"
    return [Finding(level="note", what=what, advice=f"release the space: sqlite3 {path} VACUUM")]


def _copy_it(what: str) -> Finding:
    advice = "`lagotto copy` makes a base without them"
    return Finding(level="problem", what=what, advice=advice)
