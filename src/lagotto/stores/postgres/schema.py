"""The tables of a base in a database: recognised, created, upgraded, discarded.

Those that only this store has are derived, so they can be rebuilt from the documents. A segment is
the full-text index of some chunks: a row with postings for each of their terms. Every write adds
one, and merging replaces many by few. Nothing is changed in place, so writers and readers never
wait for each other; removed chunks are listed until a merge drops their postings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar
from uuid import uuid4

import psycopg
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from lagotto.errors import NotABaseError, StoreError, StoreReadOnlyError
from lagotto.indexes.base import text_rules
from lagotto.stores.base import BaseConfig
from lagotto.stores.postgres import database
from lagotto.stores.sql import SCHEMA_VERSION, before_release, check_version, migrate
from lagotto.stores.sql.read import setting
from lagotto.stores.sql.tables import Tables
from lagotto.stores.sql.write import insert_rows, put_config, put_setting, start_history

T = TypeVar("T")

TEXT_INDEX = ("segment", "posting", "gone", "indexed", "chunk_terms", "term")
"""The tables that are rebuilt when the rules for terms change."""

_TABLES = """
-- A part of the full-text index; `chunks` includes those removed since.
CREATE TABLE segment (
    number BIGINT PRIMARY KEY,
    chunks BIGINT NOT NULL,
    generation BIGINT DEFAULT 0 NOT NULL
);

-- The chunks of a segment that hold a term: records as in `text_index`.
CREATE TABLE posting (
    term TEXT COLLATE "C",
    generation BIGINT,
    segment BIGINT,
    records BYTEA NOT NULL,
    PRIMARY KEY (term, generation, segment)
);
CREATE INDEX posting_by_segment ON posting (segment);
-- Postings hardly compress, and are read often.
ALTER TABLE posting ALTER COLUMN records SET STORAGE EXTERNAL;

-- A removed chunk whose postings still exist.
CREATE TABLE gone (
    chunk_key BIGINT PRIMARY KEY,
    generation BIGINT DEFAULT 0 NOT NULL
);

-- How many chunks of a generation can be found, and how many terms they have.
CREATE TABLE indexed (
    generation BIGINT PRIMARY KEY,
    chunks BIGINT NOT NULL,
    terms BIGINT NOT NULL
);
INSERT INTO indexed (generation, chunks, terms) VALUES (0, 0, 0);

-- The terms of a chunk with their positions, and their number.
CREATE TABLE chunk_terms (
    chunk_key BIGINT PRIMARY KEY REFERENCES chunk (key) ON DELETE CASCADE,
    length BIGINT NOT NULL,
    terms TSVECTOR NOT NULL
);

-- A term that some chunk contains or contained. `shapes` are hashes of the term and of the term
-- without one letter: terms that share a hash are one edit apart.
CREATE TABLE term (
    text TEXT COLLATE "C" PRIMARY KEY,
    shapes BIGINT[] NOT NULL
);
CREATE INDEX term_by_trigram ON term USING gin (text gin_trgm_ops);
CREATE INDEX term_by_shape ON term USING gin (shapes);

ALTER TABLE embedding ALTER COLUMN created_at SET DEFAULT now();
"""

CREATE_WORDS = """
-- A chunk as a text search configuration of the server reads it; see `native`.
DROP TABLE IF EXISTS chunk_words;
CREATE TABLE chunk_words (
    chunk_key BIGINT PRIMARY KEY REFERENCES chunk (key) ON DELETE CASCADE,
    config TEXT COLLATE "C" NOT NULL,
    words TSVECTOR NOT NULL,
    generation BIGINT DEFAULT 0 NOT NULL
);
"""
"""The table that is created when a search first needs it."""

COUNTERS = ("document", "chunk_set", "change", "segment", "state")


def prepare_schema(connection: Connection, location: str) -> None:
    """Create a base, or upgrade an older one; the caller is the only writer."""
    version = schema_version(connection, location)
    if version == SCHEMA_VERSION:
        return
    connection.execute(text(f"SELECT pg_advisory_xact_lock({database.PREPARER}, 0)"))
    for name in database.EXTENSIONS:
        _add_extension(connection, name, location)
    if version == 0:
        _create(connection)
    else:
        migrate(connection, version)
    put_setting(connection, "schema", str(SCHEMA_VERSION))


def schema_version(connection: Connection, location: str) -> int:
    """The version of the tables, 0 if there are none; raises if they are not ours."""
    own = connection.scalar(text("SELECT current_schema()"))  # no other of the search path
    tables = set(inspect(connection).get_table_names(own))
    if not tables & set(Tables.metadata.tables):
        return 0
    version = setting(connection, "schema") if "setting" in tables else None
    if version is None and "setting" in tables and setting(connection, "schema_version"):
        raise before_release(location)
    if version is None:
        raise NotABaseError(
            f"{location} is not a Lagotto base, but has tables of the same names; choose another "
            "database, or another schema with ?options=-csearch_path=NAME,public"
        )
    check_version(int(version), location)
    return int(version)


def _create(connection: Connection) -> None:
    Tables.metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(_TABLES)
    insert_rows(connection, "counter", [{"name": name, "value": 0} for name in COUNTERS])
    start_history(connection)
    put_config(connection, BaseConfig())
    put_setting(connection, "base_id", uuid4().hex)
    put_setting(connection, "text_rules", text_rules())


DIMENSION = "dimension_of_generation_"

# Several models may share the table, so the column itself can't have a dimension. A role that only
# writes can't change the table; then the client's own check is the only one.
_CHECK = text("""
SELECT format(
    'ALTER TABLE embedding ADD CONSTRAINT %I '
    'CHECK (generation <> %s OR model_id <> %L OR vector_dims(vector) = %s) NOT VALID',
    CAST(:name AS text), CAST(:generation AS int), CAST(:model AS text), CAST(:dimension AS int)
)
FROM pg_class WHERE oid = 'embedding'::regclass AND pg_has_role(relowner, 'USAGE')
    AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = pg_class.oid AND conname = :name)
""")
_CHECKS = text(
    "SELECT conname FROM pg_constraint WHERE conrelid = 'embedding'::regclass "
    f"AND conname ~ '^{DIMENSION}[0-9]+$'"
)


def enforce_dimension(connection: Connection, config: BaseConfig) -> None:
    """Let the server refuse vectors of a generation's model that have another dimension."""
    if config.model_id is None or config.dimension is None:
        return
    parameters = {
        "name": f"{DIMENSION}{config.generation}",
        "generation": config.generation,
        "model": config.model_id,
        "dimension": config.dimension,
    }
    statement = connection.scalar(_CHECK, parameters)
    if statement is not None:
        connection.exec_driver_sql(statement.replace("%", "%%"))


def forget_dimensions(connection: Connection, *, generations: Collection[int]) -> None:
    """Drop what `enforce_dimension` added for other generations."""
    for name in connection.scalars(_CHECKS).all():
        if int(name.removeprefix(DIMENSION)) not in generations:
            connection.execute(text(f"ALTER TABLE embedding DROP CONSTRAINT {name}"))


def _add_extension(connection: Connection, name: str, location: str) -> None:
    query = text("SELECT extversion FROM pg_extension WHERE extname = :name")
    version = connection.scalar(query, {"name": name})
    if version is None:
        try:
            # Not in the base's own schema: other bases in the database need it too.
            connection.execute(text(f"CREATE EXTENSION {name} SCHEMA public"))
        except DBAPIError as exc:
            if isinstance(exc.orig, psycopg.errors.InsufficientPrivilege):
                raise StoreReadOnlyError(
                    f"{location}: the extension {name} is missing, and this user may not add it; "
                    f"have an administrator run in this database: CREATE EXTENSION {name};"
                ) from exc
            package = "pgvector" if name == "vector" else "postgresql-contrib"
            raise StoreError(
                f"{location}: the server doesn't have the extension {name} "
                f"({str(exc.orig).strip()}); install {package} on the server, then run: "
                f"CREATE EXTENSION {name};"
            ) from exc
        version = connection.scalar(query, {"name": name})
    needed = database.EXTENSIONS[name]
    if _numbers(str(version)) < _numbers(needed):
        raise StoreError(
            f"{location}: the extension {name} has version {version}, but {needed} is "
            "needed; install a newer version on the server, then run: "
            f"ALTER EXTENSION {name} UPDATE;"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


CLOSING_CHECKS, CLOSING_PAUSE = 10, 0.05
"""How often, and every how many seconds, to look whether others are still connected."""
_OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
_NEVER_USED = text(
    "SELECT NOT EXISTS (SELECT FROM document) AND NOT EXISTS (SELECT FROM keyed_value) "
    "AND NOT EXISTS (SELECT FROM counter WHERE value > 0)"
)


async def is_missing(location: str) -> bool:
    """Whether there is no base yet at an address; its database may not exist either."""
    return await _answer(location, schema_version) == 0


async def discard_if_empty(location: str) -> bool:
    """Drop the tables of a base that never had a document, unless it may be in use.

    It may be if anybody else is connected to the database; the server takes a moment to notice that
    a connection was closed. The extensions stay: other bases of the database may use them.
    """
    for _ in range(CLOSING_CHECKS):
        discarded = await _answer(location, _discard)
        if discarded is not None:
            return discarded
        await asyncio.sleep(CLOSING_PAUSE)
    return False


async def _answer(location: str, question: Callable[[Connection, str], T]) -> T:
    """An answer from a connection of its own; the question gets the location for messages, too."""
    address = database.parse_location(location)
    async with database.single_connection(address) as connection, connection.begin():
        return await connection.run_sync(question, address.location)


def _discard(connection: Connection, location: str) -> bool | None:
    """Whether the tables were dropped; None if somebody else is connected."""
    database.acquire_locks(connection, None, timeout=database.BUSY_TIMEOUT)
    if connection.scalar(_OTHERS):
        return None
    if schema_version(connection, location) == 0 or not connection.scalar(_NEVER_USED):
        return False
    connection.execute(text(f"DROP TABLE IF EXISTS {', '.join(TEXT_INDEX)}, chunk_words"))
    Tables.metadata.drop_all(connection, checkfirst=False)
    return True
