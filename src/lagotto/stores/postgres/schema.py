"""The tables of a base in a database: recognised, created, upgraded, discarded.

Those that only this store has are derived, so they can be rebuilt from the documents. A segment is
the full-text index of some chunks: a row with postings for each of their terms. Every write adds
one, and merging replaces many by few. Nothing is changed in place, so writers and readers never
wait for each other; removed chunks are listed until a merge drops their postings.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import uuid4

import psycopg
from sqlalchemy import (
    Connection,
    ForeignKey,
    Index,
    LargeBinary,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import BigInteger

from lagotto.errors import NotABaseError
from lagotto.indexes.base import text_rules
from lagotto.stores.base import BaseConfig
from lagotto.stores.postgres.database import (
    BUSY_TIMEOUT,
    EXTENSIONS,
    acquire_database_lock,
    acquire_locks,
    create_single,
    missing_extension,
    old_extension,
    parse_location,
    postgres_errors,
)
from lagotto.stores.sql import SCHEMA_VERSION, before_release, check_version, migrate
from lagotto.stores.sql.read import setting
from lagotto.stores.sql.tables import (
    ChunkRow,
    Counter,
    DocumentRow,
    KeyedValueRow,
    Tables,
    of_generation,
)
from lagotto.stores.sql.write import put_config, put_setting, start_history


class PostgresTables(DeclarativeBase):
    """The tables of this store, in addition to those of every SQL store."""

    type_annotation_map = Tables.type_annotation_map


class SegmentRow(PostgresTables):
    """A part of the full-text index; `chunks` includes those removed since."""

    __tablename__ = "segment"

    number: Mapped[int] = mapped_column(primary_key=True)
    chunks: Mapped[int]
    generation: Mapped[int] = of_generation()


class PostingRow(PostgresTables):
    """The chunks of a segment that hold a term: records as in `postings`."""

    __tablename__ = "posting"
    __table_args__ = (Index("posting_by_segment", "segment"),)

    term: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True)
    segment: Mapped[int] = mapped_column(primary_key=True)
    records: Mapped[bytes] = mapped_column(LargeBinary())


class GoneRow(PostgresTables):
    """A removed chunk whose postings still exist."""

    __tablename__ = "gone"

    chunk_key: Mapped[int] = mapped_column(primary_key=True)
    generation: Mapped[int] = of_generation()


class IndexedRow(PostgresTables):
    """How many chunks of a generation can be found, and how many terms they have."""

    __tablename__ = "indexed"

    generation: Mapped[int] = mapped_column(primary_key=True)
    chunks: Mapped[int]
    terms: Mapped[int]


class ChunkTermsRow(PostgresTables):
    """The terms of a chunk with their positions, and their number."""

    __tablename__ = "chunk_terms"

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    length: Mapped[int]
    terms: Mapped[str] = mapped_column(TSVECTOR())


class TermRow(PostgresTables):
    """A term that some chunk contains or contained.

    `shapes` are hashes of the term and of the term without one letter: terms that share a hash are
    one edit apart.
    """

    __tablename__ = "term"
    __table_args__ = (
        Index(
            "term_by_trigram",
            "text",
            postgresql_using="gin",
            postgresql_ops={"text": "gin_trgm_ops"},
        ),
        Index("term_by_shape", "shapes", postgresql_using="gin"),
    )

    text: Mapped[str] = mapped_column(primary_key=True)
    shapes: Mapped[list[int]] = mapped_column(ARRAY(BigInteger()))


TEXT_INDEX = (SegmentRow, PostingRow, GoneRow, IndexedRow, ChunkTermsRow, TermRow)
"""The tables that are rebuilt when the rules for terms change."""


class NativeTables(DeclarativeBase):
    """The tables that are created when a search first needs them."""

    type_annotation_map = Tables.type_annotation_map


class ChunkWordsRow(NativeTables):
    """A chunk as a text search configuration of the server reads it; see `chunk_words.py`."""

    __tablename__ = "chunk_words"
    __table_args__ = (Index("chunk_words_by_word", "words", postgresql_using="gin"),)

    chunk_key: Mapped[int] = mapped_column(
        ForeignKey(ChunkRow.key, ondelete="CASCADE"), primary_key=True
    )
    config: Mapped[str]
    words: Mapped[str] = mapped_column(TSVECTOR())
    generation: Mapped[int] = of_generation()


COUNTERS = ("document", "chunk_set", "change", "segment", "state")


def prepare_schema(connection: Connection, location: str) -> None:
    """Create a base, or upgrade an older one; the caller is the only writer."""
    version = schema_version(connection, location)
    if version == SCHEMA_VERSION:
        return
    acquire_database_lock(connection)
    for name in EXTENSIONS:
        _add_extension(connection, name, location)
    if version == 0:
        _create(connection)
    else:
        migrate(connection, version)
    put_setting(connection, "schema", str(SCHEMA_VERSION))


def schema_version(connection: Connection, location: str) -> int:
    """The version of the tables, 0 if there are none; raises if they are not ours."""
    own = connection.scalar(
        text("SELECT current_schema()")
    )  # not the other schemas of the search path
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
    for metadata in (Tables.metadata, PostgresTables.metadata):
        metadata.create_all(connection, checkfirst=False)
    # Postings hardly compress, and are read often.
    connection.execute(text("ALTER TABLE posting ALTER COLUMN records SET STORAGE EXTERNAL"))
    connection.execute(text("ALTER TABLE embedding ALTER COLUMN created_at SET DEFAULT now()"))
    connection.execute(insert(Counter), [{"name": name, "value": 0} for name in COUNTERS])
    connection.execute(insert(IndexedRow).values(generation=0, chunks=0, terms=0))
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
    asked = {
        "name": f"{DIMENSION}{config.generation}",
        "generation": config.generation,
        "model": config.model_id,
        "dimension": config.dimension,
    }
    statement = connection.scalar(_CHECK, asked)
    if statement is not None:
        connection.exec_driver_sql(statement.replace("%", "%%"))


def forget_dimensions(connection: Connection, *, kept: Collection[int]) -> None:
    """Drop what `enforce_dimension` added for other generations."""
    for name in connection.scalars(_CHECKS).all():
        if int(name.removeprefix(DIMENSION)) not in kept:
            connection.execute(text(f"ALTER TABLE embedding DROP CONSTRAINT {name}"))


def _add_extension(connection: Connection, name: str, location: str) -> None:
    found = text("SELECT extversion FROM pg_extension WHERE extname = :name")
    version = connection.scalar(found, {"name": name})
    if version is None:
        try:
            # Not in the base's own schema: other bases in the database need it too.
            connection.execute(text(f"CREATE EXTENSION {name} SCHEMA public"))
        except DBAPIError as exc:
            if not isinstance(exc.orig, psycopg.Error):
                raise
            raise missing_extension(location, name, exc.orig) from exc
        version = connection.scalar(found, {"name": name})
    if _numbers(str(version)) < _numbers(EXTENSIONS[name]):
        raise old_extension(location, name, str(version))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


_OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


async def is_missing(location: str) -> bool:
    """Whether there is no base yet at an address; its database may not exist either."""
    address = parse_location(location)
    engine = create_single(address)
    try:
        with postgres_errors(address.location):
            async with engine.connect() as connection:
                return await connection.run_sync(schema_version, address.location) == 0
    finally:
        await engine.dispose()


async def discard_if_empty(location: str) -> bool:
    """Drop the tables of a base that never had a document, unless it may be in use.

    It may be if anybody else is connected to the database. The extensions stay: other bases of the
    database may use them.
    """
    address = parse_location(location)
    engine = create_single(address)
    try:
        with postgres_errors(address.location):
            async with engine.begin() as connection:
                return await connection.run_sync(_discard, address.location)
    finally:
        await engine.dispose()


def _discard(connection: Connection, location: str) -> bool:
    acquire_locks(connection, None, timeout=BUSY_TIMEOUT)
    if connection.scalar(_OTHERS) or schema_version(connection, location) == 0:
        return False
    if not _never_had_a_document(connection):
        return False
    for metadata in (PostgresTables.metadata, Tables.metadata):
        metadata.drop_all(connection, checkfirst=False)
    return True


def _never_had_a_document(connection: Connection) -> bool:
    used = connection.scalar(select(func.max(Counter.value)))
    rows = [
        connection.scalar(select(func.count()).select_from(table))
        for table in (DocumentRow, KeyedValueRow)
    ]
    return not used and not any(rows)
