"""What may be wrong with the file of a base and with the indexes beside it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.errors import StoreError
from lagotto.indexes.base import MEGABYTE, Finding, note, ok, problem
from lagotto.indexes.folder import other_folders, size_of
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.generations import read_next
from lagotto.stores.sql.indexes import IndexPair
from lagotto.stores.sql.statements import ReadConnection, Statement
from lagotto.stores.sqlite.database import ways_out

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

MUCH_FREE = 0.25
"""The share of a file that may be unused before it is reported."""


def check_base(connection: ReadConnection, store: SqliteStore) -> list[Finding]:
    """All that may be wrong; nobody opens the indexes if the file is damaged."""
    path, folder = store.path, store.indexes
    lines = [str(value) for value in Statement("PRAGMA quick_check").column(connection)]
    if lines != ["ok"]:
        more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
        what = f"{path} is damaged: {lines[0]}{more}"
        return [problem(what, ways_out(path))]
    findings = [ok(f"the file is intact, its schema is {SCHEMA_VERSION}"), *check_rows(connection)]
    findings += [*_orphans(connection), *_free_space(connection, path)]
    try:
        folder.refuse_links()
    except StoreError as exc:
        return [*findings, problem(str(exc))]
    store.reload_if_rebuilt(connection)
    present = store.search_indexes.open
    findings += store.search_indexes.check(SqlChangeLog(connection))
    following = read_next(connection)
    building = store.search_indexes.open_for(following) if following else IndexPair()
    indexes = (*present.by_role().values(), *building.by_role().values())
    used = {index.folder for index in indexes}
    unused = [path for path in folder.indexes() if path not in used]
    # of other rules or bases, or what a killed process was about to remove
    if unused := [*unused, *other_folders(folder, store.file)]:
        size = sum(map(size_of, unused)) / MEGABYTE
        names = " ".join(shlex.quote(str(path)) for path in sorted(unused))
        what = f"{len(unused)} index folders are not used any more ({size:.1f} MB)"
        findings.append(note(what, f"delete them: rm -r {names}"))
    return findings


def _orphans(connection: ReadConnection) -> Iterator[Finding]:
    tables = Counter(map(str, Statement("PRAGMA foreign_key_check").column(connection)))
    if tables:
        counts = ", ".join(f"{count} of {table}" for table, count in sorted(tables.items()))
        what = f"rows belong to documents or chunks that are not there: {counts}"
        yield problem(what, "`lagotto copy` makes a base without them")


def _free_space(connection: ReadConnection, path: Path) -> Iterator[Finding]:
    pages, free, size = (
        int(Statement(f"PRAGMA {name}").scalar(connection))
        for name in ("page_count", "freelist_count", "page_size")
    )
    if free * size >= MEGABYTE and free >= MUCH_FREE * pages:
        what = f"{free * size / MEGABYTE:.1f} MB of the file are unused"
        yield note(what, f"release the space: sqlite3 {path} VACUUM")
