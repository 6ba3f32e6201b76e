"""The next generation of a base on a server: a base of its own, in a schema beside it.

It holds copies of the documents, and builds its postings and its graph as any base does. The switch
only renames: the tables of the base move to a third schema, those of the next generation to the
schema of the base, in one transaction that waits until no search is running. If the process is
killed before the commit, the base is unchanged and the next rebuild resumes; after the commit, the
next rebuild drops the schema that is left over.

Both schemas carry a comment with the id of their base: no other schema is ever dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from lagotto._internal.concurrency import in_thread
from lagotto.documents import Document, digest
from lagotto.errors import StoreBusyError, StoreError
from lagotto.indexes.base import Finding
from lagotto.indexes.updater import delete_remote
from lagotto.stores.base import BaseConfig, Pending, unfinished_rebuild
from lagotto.stores.postgres.database import Address, create_single, postgres_errors
from lagotto.stores.postgres.locks import REBUILDER, WRITER
from lagotto.stores.postgres.schema import enforce_dimension, schema_version
from lagotto.stores.postgres.tables import NativeTables, PostgresTables
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.read import read_config, read_sources, setting
from lagotto.stores.sql.tables import Tables
from lagotto.stores.sql.write import put_config, put_setting

if TYPE_CHECKING:
    from lagotto.stores.postgres.store import PostgresStore

LONGEST_NAME = 50
"""Bytes of a schema name to which a suffix can be added; PostgreSQL cuts names at 63."""

LOCK_TIMEOUT = 0.8
"""Seconds that an attempt waits for running searches, while new ones wait too. Less than the second
after which the server looks for deadlocks, and would end a search instead of the switch."""

PAUSE = 0.2
MEGABYTE = 1_000_000

_TABLES = (*Tables.metadata.tables, *PostgresTables.metadata.tables, *NativeTables.metadata.tables)

_BASE = text("""
SELECT current_schema() AS schema, (SELECT value FROM setting WHERE name = 'base_id') AS base_id,
    current_schema()::regnamespace::oid::int AS oid,
    (SELECT string_agg(DISTINCT quote_ident(nspname), ',') FROM pg_extension
     JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname IN ('vector', 'pg_trgm'))
    AS extensions
""")
_COMMENT = text("SELECT obj_description(to_regnamespace(:name), 'pg_namespace')")
_EXISTS = text("SELECT to_regnamespace(:name) IS NOT NULL")
_LACKING = """
SELECT here.collection, here.id FROM {here}.document AS here
LEFT JOIN {there}.document AS there ON there.collection = here.collection AND there.id = here.id
    AND there.content_hash = here.content_hash AND there.fingerprint = here.fingerprint
    AND there.language IS NOT DISTINCT FROM here.language {exactly}
WHERE there.key IS NULL ORDER BY here.collection, here.id
"""
_EXACTLY = (
    "AND md5(there.text) = md5(here.text) AND there.structure::text = here.structure::text "
    "AND there.metadata::text = here.metadata::text"
)
_OWN_SETTING = text(
    "SELECT relnamespace::regnamespace FROM pg_class WHERE oid = 'setting'::regclass"
)
_SIZE = text(
    "SELECT coalesce(sum(pg_total_relation_size(quote_ident(schemaname) || '.' "
    "|| quote_ident(tablename))), 0)::bigint FROM pg_tables WHERE schemaname = :schema"
)
_PRESENT = text("SELECT tablename FROM pg_tables WHERE schemaname = :schema")
_RIGHTS = text("""
SELECT relname, privilege_type,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role
FROM pg_class, aclexplode(relacl)
WHERE relnamespace = to_regnamespace(:schema) AND relkind = 'r' AND grantee != relowner
""")


@dataclass(frozen=True, slots=True)
class Schemas:
    """The quoted schemas of a base: its own, the next generation's, the former generation's."""

    base_id: str
    oid: int
    base: str
    next: str
    former: str
    extensions: str

    @classmethod
    def of(cls, connection: Connection) -> Schemas:
        """The schemas of the base that a connection sees."""
        row = connection.execute(_BASE).one()
        stem = row.schema
        if len(stem.encode()) > LONGEST_NAME:
            stem = f"{stem[: LONGEST_NAME // 2]}_{digest(stem)[:8]}"
        names = (row.schema, f"{stem}_rebuild", f"{stem}_former")
        base, following, former = (f'"{name}"' for name in names)
        return cls(row.base_id, row.oid, base, following, former, row.extensions or "public")

    @property
    def marker(self) -> str:
        """The comment of a schema that belongs to this base."""
        return f"lagotto rebuild {self.base_id}"


@asynccontextmanager
async def postgres_staging(
    base: PostgresStore, config: BaseConfig
) -> AsyncIterator[PostgresStaging]:
    """The next generation of a base."""
    with postgres_errors(base.location):
        single = create_single(base.address).execution_options(isolation_level="AUTOCOMMIT")
        async with single.connect() as connection:  # holds the lock until it closes
            schemas = await connection.run_sync(Schemas.of)
            if not await connection.scalar(
                text(f"SELECT pg_try_advisory_lock({REBUILDER}, {schemas.oid})")
            ):
                raise StoreBusyError(
                    f"another process is rebuilding {base.location}; wait until it has finished"
                )
            staging = PostgresStaging(base, config, schemas)
            await connection.run_sync(staging.prepare)
            await staging.open()
            try:
                yield staging
            finally:
                await staging.store.close()


def check_rebuild(connection: Connection) -> list[Finding]:
    """Whether a rebuild was left unfinished."""
    schemas = Schemas.of(connection)
    if connection.scalar(_COMMENT, {"name": schemas.next}) != schemas.marker:
        return []
    size = connection.scalar(_SIZE, {"schema": _plain(schemas.next)})
    return [unfinished_rebuild(f"{size / MEGABYTE:.1f} MB in the schema {schemas.next}")]


class PostgresStaging:
    """A Staging for PostgresStore."""

    def __init__(self, base: PostgresStore, config: BaseConfig, schemas: Schemas) -> None:
        from lagotto.stores.postgres.store import PostgresStore

        self._base = base
        self._config = config
        self._schemas = schemas
        self.store = PostgresStore(_location(base.address, schemas), busy_timeout=base.busy_timeout)

    def prepare(self, connection: Connection) -> None:
        """Drop what earlier rebuilds have left, unless it can be resumed."""
        _drop(connection, self._schemas.former, self._schemas)
        if not self._can_resume(connection):
            _drop(connection, self._schemas.next, self._schemas)
            connection.execute(text(f"CREATE SCHEMA {self._schemas.next}"))
            self._mark(connection, self._schemas.next)

    async def open(self) -> None:
        """Open the next generation; one that is new becomes part of this base."""
        await self.store.open()
        await self.store.change(self._adopt)

    async def pending(self) -> Pending:
        return await self._base.ask(lambda connection: self._pending(connection, _EXACTLY))

    async def documents(self, names: Sequence[tuple[str, str]]) -> list[Document]:
        return await self._base.ask(lambda connection: read_sources(connection, names))

    async def build_indexes(self) -> None:
        await self.store.update_indexes()
        await self.store.close()  # which merges segments and builds the graph
        await self.store.open()

    async def switch(self) -> bool:
        await self.store.close()
        engine = create_single(self._base.address).execution_options(isolation_level="AUTOCOMMIT")
        with postgres_errors(self._base.location):
            async with engine.connect() as connection:  # holds the lock until it closes
                milliseconds = int(self._base.busy_timeout * 1000)
                await connection.execute(text(f"SET lock_timeout = {milliseconds}"))
                await connection.execute(
                    text(f"SELECT pg_advisory_lock({WRITER}, {self._schemas.oid})")
                )
                if any(await connection.run_sync(self._pending)):
                    await self.store.open()
                    return False
                former = self._base.remote_indexes()
                await self._rename(connection)
        await in_thread(delete_remote, former)
        return True

    def _can_resume(self, connection: Connection) -> bool:
        """Whether the unfinished generation has the same settings and schema version."""
        schema = self._schemas.next
        if connection.scalar(_COMMENT, {"name": schema}) != self._schemas.marker:
            return False
        connection.execute(text(f"SET search_path = {_path(self._schemas)}"))
        try:
            if schema_version(connection, self._base.location) != SCHEMA_VERSION:
                return False
            stored, base_id = read_config(connection), setting(connection, "base_id")
        finally:
            connection.execute(text("RESET search_path"))
        return (stored, base_id) == (self._config, self._schemas.base_id)

    def _mark(self, connection: Connection, schema: str) -> None:
        connection.execute(text(f"COMMENT ON SCHEMA {schema} IS '{self._schemas.marker}'"))

    def _adopt(self, connection: Connection) -> None:
        if connection.scalar(_OWN_SETTING) != _plain(self._schemas.next):
            raise StoreError(
                f"the tables of the next generation are not in the schema {self._schemas.next}; "
                "nothing was changed"
            )
        if read_config(connection) == self._config:
            return
        put_config(connection, self._config)
        enforce_dimension(connection, self._config)
        put_setting(connection, "base_id", self._schemas.base_id)
        rights = connection.execute(_RIGHTS, {"schema": self._schemas.base}).all()
        present = set(connection.scalars(_PRESENT, {"schema": _plain(self._schemas.next)}))
        for table, right, role in rights:
            if table in present:
                connection.execute(text(f"GRANT {right} ON {self._schemas.next}.{table} TO {role}"))

    def _pending(self, connection: Connection, exactly: str = "") -> Pending:
        base, following = self._schemas.base, self._schemas.next
        missing, surplus = (
            connection.exec_driver_sql(
                _LACKING.format(here=here, there=there, exactly=exactly)
            ).all()
            for here, there in ((base, following), (following, base))
        )
        return Pending([(row[0], row[1]) for row in missing], [(row[0], row[1]) for row in surplus])

    async def _rename(self, connection: AsyncConnection) -> None:
        """Switch as soon as no search is running; the caller holds the writers' lock."""
        give_up = time.monotonic() + self._base.busy_timeout
        await connection.execute(text(f"SET lock_timeout = {int(LOCK_TIMEOUT * 1000)}"))
        while True:
            try:
                with postgres_errors(self._base.location):
                    await connection.run_sync(self._renamed)
                break
            except StoreBusyError:
                await connection.exec_driver_sql("ROLLBACK")
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(PAUSE)
        await connection.run_sync(lambda sync: _drop(sync, self._schemas.former, self._schemas))

    def _renamed(self, connection: Connection) -> None:
        schemas = self._schemas
        ours, theirs = (
            [name for name in _TABLES if name in set(connection.scalars(_PRESENT, {"schema": s}))]
            for s in (_plain(schemas.base), _plain(schemas.next))
        )
        locked = ", ".join(f"{schemas.base}.{name}" for name in ours)
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE")
        connection.exec_driver_sql(f"CREATE SCHEMA {schemas.former}")
        self._mark(connection, schemas.former)
        for name in ours:
            connection.exec_driver_sql(
                f"ALTER TABLE {schemas.base}.{name} SET SCHEMA {schemas.former}"
            )
        for name in theirs:
            connection.exec_driver_sql(
                f"ALTER TABLE {schemas.next}.{name} SET SCHEMA {schemas.base}"
            )
        connection.exec_driver_sql(f"DROP SCHEMA {schemas.next}")
        connection.exec_driver_sql("COMMIT")


def _drop(connection: Connection, schema: str, schemas: Schemas) -> None:
    """Drop a schema of this base; any other is an error."""
    if not connection.scalar(_EXISTS, {"name": schema}):
        return
    if connection.scalar(_COMMENT, {"name": schema}) != schemas.marker:
        raise StoreError(
            f"the schema {schema} is needed to rebuild the base in {schemas.base}, but it was not "
            "made by Lagotto for this base; rename it"
        )
    connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")


def _plain(schema: str) -> str:
    return schema.strip('"')


def _path(schemas: Schemas) -> str:
    return f"{schemas.next},{schemas.extensions}"


def _location(address: Address, schemas: Schemas) -> str:
    """The address of the next generation."""
    given = address.url.query.get("options", "")
    path = _path(schemas).replace("\\", "\\\\").replace(" ", "\\ ")
    options = f"{given} -csearch_path={path}".strip()
    url = address.url.set(drivername="postgresql").update_query_dict({"options": options})
    return url.render_as_string(hide_password=False)
