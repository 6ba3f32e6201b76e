"""The index for the server's own full-text search, built when a search first asks for it.

From then on every write keeps it up to date (`chunk_words.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager

from sqlalchemy import Connection, Table, text
from sqlalchemy.schema import CreateTable, DropTable

from lagotto.stores.postgres.chunk_words import SETTING, Configs, add_words, parse_configs
from lagotto.stores.postgres.tables import ChunkWordsRow
from lagotto.stores.postgres.transaction import ReadTransaction
from lagotto.stores.sql.changelog import added_texts, ranges
from lagotto.stores.sql.read import counter
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.write_settings import put_setting

log = logging.getLogger(__name__)

_KNOWN = text(
    "SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace "
    "ORDER BY cfgname"
)
_RIGHTS = text(
    "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' "
    "ELSE quote_ident(pg_get_userbyid(grantee)) END "
    "FROM pg_class, aclexplode(relacl) WHERE oid = 'chunk'::regclass AND grantee != relowner"
)


def make_words(connection: Connection) -> Configs:
    """Build the index unless it exists; the caller is the only writer."""
    if made := parse_configs(setting(connection, SETTING)):
        return made
    log.info("building the index for the server's own full-text search")
    known = tuple(connection.scalars(_KNOWN))
    table = ChunkWordsRow.__table__
    assert isinstance(table, Table)
    connection.execute(DropTable(table, if_exists=True))
    connection.execute(CreateTable(table))
    for start, stop in ranges(connection, since=0, until=counter(connection, "change")):
        chunks = added_texts(connection, start, stop)
        texts = [(chunk.text, chunk.detected) for chunk in chunks]
        add_words(connection, [chunk.key for chunk in chunks], texts, known)
    for index in table.indexes:
        index.create(connection)
    connection.execute(text("ANALYZE chunk_words"))
    for right, who in connection.execute(_RIGHTS).all():
        connection.execute(text(f"GRANT {right} ON chunk_words TO {who}"))
    put_setting(connection, SETTING, ",".join(known))
    return known


class WordIndex:
    """The index of one base, built on demand.

    `change` runs a change while nobody else writes; `fresh` opens a reader of the latest state.
    """

    def __init__(
        self,
        *,
        change: Callable[[Callable[[Connection], Configs]], Coroutine[None, None, Configs]],
        fresh: Callable[[], AbstractAsyncContextManager[ReadTransaction]],
    ) -> None:
        self._change = change
        self.fresh = fresh
        self._making: asyncio.Task[Configs] | None = None

    async def make(self) -> Configs:
        """Build the index unless it exists, and return its configurations.

        Cancelling the search does not cancel the build: the next search would have to start over.
        """
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._change(make_words))
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Cancel a build that is running."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])
            self._making = None
