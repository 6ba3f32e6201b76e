"""The index for the server's own full-text search: made when first asked for, kept from then on.

It takes room and time that a base whose words are ranked by BM25 has no use for. The setting
`native_text` says that it is there, and which configurations it was made with: those that the
server knew then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager

from sqlalchemy import Connection, Table, text
from sqlalchemy.schema import CreateTable, DropTable

from lagotto.stores.postgres.native.configs import config_of
from lagotto.stores.postgres.tables import ChunkWordsRow
from lagotto.stores.postgres.transaction import ReadTransaction
from lagotto.stores.sql.changelog import added_texts, ranges
from lagotto.stores.sql.read import counter
from lagotto.stores.sql.settings import put_setting, setting

log = logging.getLogger(__name__)

SETTING = "native_text"

MOST_BYTES = 250_000
"""Of a longer chunk only the beginning is indexed: a tsvector may have 1 MB, and may be up to four
times as large as its text."""

Configs = tuple[str, ...]

_KNOWN = text(
    "SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace "
    "ORDER BY cfgname"
)
_ADD = text(
    "INSERT INTO chunk_words (chunk_key, config, words) "
    "SELECT key, config, to_tsvector(config::regconfig, content) "
    "FROM unnest(cast(:keys AS bigint[]), cast(:configs AS text[]), cast(:texts AS text[])) "
    "AS new (key, config, content) "
    "ON CONFLICT (chunk_key) DO UPDATE SET config = excluded.config, words = excluded.words"
)
_WITHOUT = text(
    "SELECT count(*) FROM chunk LEFT JOIN chunk_words ON chunk_key = key "
    "WHERE level != 'parent' AND chunk_key IS NULL"
)
_RIGHTS = text(
    "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' "
    "ELSE quote_ident(pg_get_userbyid(grantee)) END "
    "FROM pg_class, aclexplode(relacl) WHERE oid = 'chunk'::regclass AND grantee != relowner"
)


def parse_configs(value: str | None) -> Configs | None:
    """The configurations that the setting names; None without an index."""
    return tuple(value.split(",")) if value else None


def make_words(connection: Connection) -> Configs:
    """Make the index unless it is there; the caller is the only writer."""
    if made := parse_configs(setting(connection, SETTING)):
        return made
    log.info("the index for the server's own full-text search is made")
    known = tuple(connection.scalars(_KNOWN))
    table = ChunkWordsRow.__table__
    assert isinstance(table, Table)
    connection.execute(DropTable(table, if_exists=True))
    connection.execute(CreateTable(table))
    for start, stop in ranges(connection, since=0, until=counter(connection, "change")):
        chunks = added_texts(connection, start, stop)
        texts = [(chunk.text, chunk.language) for chunk in chunks]
        _add(connection, [chunk.key for chunk in chunks], texts, known)
    for index in table.indexes:
        index.create(connection)
    connection.execute(text("ANALYZE chunk_words"))
    for right, who in connection.execute(_RIGHTS).all():
        connection.execute(text(f"GRANT {right} ON chunk_words TO {who}"))
    put_setting(connection, SETTING, ",".join(known))
    return known


def keep_words(
    connection: Connection, keys: Sequence[int], texts: Sequence[tuple[str, str | None]]
) -> None:
    """Index chunks, given by their texts and languages, if there is an index."""
    known = parse_configs(setting(connection, SETTING))
    if known and keys:
        _add(connection, keys, texts, known)


def chunks_without_words(connection: Connection) -> int:
    """How many chunks the index lacks, if there is one."""
    if not setting(connection, SETTING):
        return 0
    return int(connection.scalar(_WITHOUT) or 0)


class WordIndex:
    """The index of a base, as its searches ask for it.

    `change` carries out a change of the base alone, `fresh` opens a reader of its latest state.
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
        """The configurations of the index, which is made unless it is there.

        A search that is called off doesn't stop this: the next one would have to begin anew.
        """
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._change(make_words))
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Stop making it."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])
            self._making = None


def _add(
    connection: Connection,
    keys: Sequence[int],
    texts: Sequence[tuple[str, str | None]],
    known: Configs,
) -> None:
    rows = {
        "keys": list(keys),
        "configs": [config_of(language, known) for _, language in texts],
        "texts": [_beginning(content) for content, _ in texts],
    }
    connection.execute(_ADD, rows)


def _beginning(content: str) -> str:
    return content.encode()[:MOST_BYTES].decode(errors="ignore")
