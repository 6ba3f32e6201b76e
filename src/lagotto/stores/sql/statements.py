"""All SQL that searches, indexes and listings read, as text, for every database.

What is written is in the module that writes it, in the same form.

A statement is written once. Parameters are `:name`; a list of values is one parameter, `IN (:ids
text)` or `FROM (:pages number)`, and so are names of documents, `JOIN (:refs name)`. What SQLite
and PostgreSQL write differently is replaced when a statement is run. As text it needs no
SQLAlchemy, whose import takes longer than a search in a small base.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto.filters import RESERVED

T = TypeVar("T")


class ReadConnection(Protocol):
    """Runs SQL text: a connection of SQLAlchemy, or one of sqlite3 alone (`SqliteConnection`)."""

    @property
    def dialect(self) -> Any:
        """The database; its `name` is `sqlite` or `postgresql`."""

    def exec_driver_sql(self, statement: str, parameters: Any, /) -> Any:
        """Run a statement as the driver takes it, or, for a list of parameters, with each of them.

        The result has `keys()`, `all()` and `rowcount`.
        """


WriteConnection = ReadConnection
"""A connection in a transaction that changes the base."""


class Transaction(Protocol):
    """Runs a function over a connection that reads one state of the base, or in a transaction that
    changes it; failures are StoreErrors."""

    def __call__(self, function: Callable[[WriteConnection], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text; `values` are those of its parameters."""

    sql: str

    def rows(self, connection: ReadConnection, /, **values: Any) -> Sequence[Sequence[Any]]:
        """All rows, each with its values in the order of the columns."""
        return self._run(connection, values)[1]

    def records(self, connection: ReadConnection, /, **values: Any) -> list[dict[str, Any]]:
        """All rows, by the names of their columns."""
        names, rows = self._run(connection, values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def column(self, connection: ReadConnection, /, **values: Any) -> list[Any]:
        return [row[0] for row in self.rows(connection, **values)]

    def scalar(self, connection: ReadConnection, /, **values: Any) -> Any:
        """The first value of the first row, None if there is no row."""
        rows = self.rows(connection, **values)
        return rows[0][0] if rows else None

    def keys(self, connection: ReadConnection, /, **values: Any) -> NDArray[np.int64]:
        """The only column, `key`, as an array."""
        if connection.dialect.name == "sqlite":
            keys = self.column(connection, **values)
            return np.fromiter(keys, np.int64, len(keys))
        # As one value, which is faster than rows.
        joined = f"SELECT string_agg(int8send(key), ''::bytea) FROM ({self.sql}) AS found"
        return joined_keys(Statement(joined).scalar(connection, **values))

    def run(self, connection: WriteConnection, /, **values: Any) -> int:
        """Change rows; how many."""
        return int(self._execute(connection, values).rowcount)

    def run_each(self, connection: WriteConnection, rows: Sequence[Mapping[str, Any]], /) -> None:
        """Run it with each of these rows as values, if there are any."""
        if rows:
            self._execute(connection, rows)

    def _execute(
        self, connection: ReadConnection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> Any:
        in_file = connection.dialect.name == "sqlite"
        written, bind = (_for_sqlite, _sqlite_value) if in_file else (_for_postgres, _server_value)
        rows = [values] if isinstance(values, Mapping) else values
        bound = [
            {name: each if type(each) in PLAIN else bind(each) for name, each in row.items()}
            for row in rows
        ]
        parameters = bound[0] if isinstance(values, Mapping) else bound
        return connection.exec_driver_sql(written(self.sql), parameters)

    def _run(
        self, connection: ReadConnection, values: Mapping[str, Any]
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        in_file = connection.dialect.name == "sqlite"
        result = self._execute(connection, values)
        names, rows = tuple(result.keys()), result.all()
        if in_file and not JSON_COLUMNS.isdisjoint(names):
            columns = [index for index, name in enumerate(names) if name in JSON_COLUMNS]
            rows = list(map(list, rows))
            for row in rows:
                for index in columns:
                    row[index] = _json(row[index])
        return names, rows


def joined_keys(data: bytes | None) -> NDArray[np.int64]:
    """The keys in the result of `string_agg(int8send(key), '')`."""
    return np.frombuffer(data or b"", ">i8").astype(np.int64)


JSON_COLUMNS = {"metadata", "structure", "heading_path", "sections", "document_metadata"}
"""The columns that hold JSON, by the names they have in statements; psycopg decodes it itself."""

PLAIN = {str, int, bool, bytes, type(None)}
"""Types of values that every driver takes as they are."""

NOT_JSON = object()
"""For a damaged value: an object that no record can be made of."""

_LIST = re.compile(r"(IN|FROM) \(:(\w+) (text|number|key)\)")
_NAMES = re.compile(r"\(:(\w+) name\)")
_PARAMETER = re.compile(r"(?<!:):(\w+)")
_ARRAYS = {"text": "text[]", "number": "numeric[]", "key": "bigint[]"}


@lru_cache(maxsize=256)
def _for_sqlite(sql: str) -> str:
    """A list is a JSON array, of arrays for names."""

    def array(match: re.Match[str]) -> str:
        each = f"json_each(:{match[2]})"
        return f"IN (SELECT value FROM {each})" if match[1] == "IN" else f"FROM {each}"

    sql = sql.replace("strpos(", "instr(").replace("string_agg(", "group_concat(")
    columns = "json_extract(value, '$[0]') AS collection, json_extract(value, '$[1]') AS id"
    return _NAMES.sub(rf"(SELECT {columns} FROM json_each(:\1))", _LIST.sub(array, sql))


@lru_cache(maxsize=256)
def _for_postgres(sql: str) -> str:
    """A list is an array, and names are a JSON array of arrays."""

    def array(match: re.Match[str]) -> str:
        values = f":{match[2]}::{_ARRAYS[match[3]]}"
        return f"= ANY({values})" if match[1] == "IN" else f"FROM unnest({values}) AS each (value)"

    columns = "value ->> 0 AS collection, value ->> 1 AS id"
    rows = rf"(SELECT {columns} FROM jsonb_array_elements(:\1::jsonb))"
    sql = _NAMES.sub(rows, _LIST.sub(array, sql.replace("%", "%%")))
    return _PARAMETER.sub(r"%(\1)s", sql)


def _sqlite_value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _server_value(value: Any) -> Any:
    """Floats as decimals, since PostgreSQL rounds a numeric to compare it with a float."""
    if isinstance(value, list | tuple):
        exact = any(isinstance(item, float) for item in value)
        return list(map(Decimal, value)) if exact else list(value)
    if isinstance(value, dict):
        return json.dumps(value)
    return Decimal(value) if isinstance(value, float) else value


def _json(stored: Any) -> Any:
    try:
        return None if stored is None else json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return NOT_JSON


def prefixed(table: str, names: str) -> str:
    """Columns of a table, separated by commas."""
    return ", ".join(f'{table}."{name}"' for name in names.split())


OUTLINE_NAMES = (
    "collection id kind source source_ref title summary language metadata created_at updated_at "
    "content_hash fingerprint"
)
OUTLINE = prefixed("document", f"key {OUTLINE_NAMES}")
"""What a document is shown with where its text is not needed."""

WHOLE = prefixed("document", f"key {OUTLINE_NAMES} structure text")

CURRENT = "(SELECT CAST(value AS BIGINT) FROM setting WHERE name = 'generation')"
"""The generation that searches see; see `generations.py`."""

_OF_LOG = f"coalesce(CAST(:generation AS BIGINT), {CURRENT})"
"""The generation whose change log is read; the current one for None."""

_FINDABLE = "chunk.level != 'parent'"
FINDABLE = f"{_FINDABLE} AND chunk.generation = {CURRENT}"
"""Chunks that can be found now."""

_NAMED = """
JOIN (:refs name) AS named ON named.collection = document.collection AND named.id = document.id
"""
"""The documents of these names only; see `read.references`."""

# Settings and size of a base

SETTING = Statement("SELECT value FROM setting WHERE name = :name")
SETTINGS = Statement("SELECT name, value FROM setting WHERE name IN (:names text)")
COUNTER = Statement("SELECT value FROM counter WHERE name = :name")
COLLECTION_SIZES = Statement("SELECT collection, count(*) FROM document GROUP BY collection")
BY_LANGUAGE = Statement("SELECT language, count(*) FROM document GROUP BY language")
FINDABLE_CHUNKS = Statement(f"SELECT count(*) FROM chunk WHERE {FINDABLE}")

# Languages

# The next language is looked up in the index, which has a step per language then, not per document.
_LANGUAGES = """
WITH RECURSIVE found(language) AS (
    SELECT min(language) FROM document
    UNION ALL
    SELECT (SELECT min(document.language) FROM document WHERE document.language > found.language)
    FROM found WHERE found.language IS NOT NULL
)
SELECT found.language, (
    SELECT count(*) FROM (
        SELECT 1 FROM document WHERE document.language = found.language {where} LIMIT :most
    ) AS counted
)
FROM found WHERE found.language IS NOT NULL
"""
LANGUAGES = Statement(_LANGUAGES.format(where=""))
"""Each known language with the number of documents in it, up to `most`."""

LANGUAGES_OF_COLLECTION = Statement(
    _LANGUAGES.format(where="AND document.collection = :collection")
)
ANY_UNKNOWN_LANGUAGE = Statement("SELECT EXISTS (SELECT 1 FROM document WHERE language IS NULL)")
LANGUAGE_COUNTS = Statement(
    "SELECT collection, language, count(*) FROM document WHERE language IS NOT NULL "
    "GROUP BY collection, language"
)

# Documents

DOCUMENT = Statement(
    f"SELECT {WHOLE} FROM document WHERE collection = :collection AND id = :document_id"
)
DOCUMENTS = Statement(f"SELECT {WHOLE} FROM document {_NAMED}")
DOCUMENT_KEYS = Statement(
    f"SELECT document.collection, document.id, content_hash, key FROM document {_NAMED}"
)
VERSIONS = Statement(f"""
SELECT document.id, document.content_hash, document.language, document.fingerprint,
    chunk_set.chunker_id, chunk_set.model_id
FROM document LEFT JOIN chunk_set ON chunk_set.document_key = document.key
    AND chunk_set.generation = {CURRENT}
WHERE document.collection = :collection AND document.id IN (:ids text)
""")
DOCUMENTS_WITHOUT_SET = Statement("""
SELECT collection, id, key FROM document WHERE NOT EXISTS (
    SELECT 1 FROM chunk_set
    WHERE chunk_set.document_key = document.key AND chunk_set.generation = :generation
) ORDER BY collection, id
""")
HAS_FIELD = Statement("SELECT EXISTS (SELECT 1 FROM attribute WHERE field = :field)")
HAS_KIND = Statement(
    "SELECT EXISTS (SELECT 1 FROM attribute WHERE field = :field AND kind = :kind)"
)
FIELDS = Statement("SELECT DISTINCT field FROM attribute")
TEXTS_OF_FIELD = Statement(
    "SELECT DISTINCT text_value FROM attribute WHERE field = :field AND kind = 'text' LIMIT :most"
)
OWN_TEXTS = {
    name: Statement(f"SELECT DISTINCT {name} FROM document WHERE {name} IS NOT NULL LIMIT :most")
    for name in ("collection", "kind", "language")
}

# Chunks

# The text of a chunk is cut out of its document's if its own row is lost.
_TEXT = """coalesce(chunk_text.text, substr(
    document.text, CAST(chunk.start + 1 AS INTEGER), CAST(chunk."end" - chunk.start AS INTEGER)
)) AS text"""
_CHUNK_NAMES = (
    "key id document_key set_key level parent_id ordinal start end token_count page_first "
    "page_last heading_path element row_first row_last item_first item_last line_first line_last "
    "sections context"
)
_CHUNKS = (
    f"SELECT {prefixed('chunk', _CHUNK_NAMES)}, document.collection, chunk_set.chunker_id, {_TEXT}"
)
_FROM_CHUNKS = """
FROM chunk JOIN document ON document.key = chunk.document_key
LEFT JOIN chunk_text ON chunk_text.chunk_key = chunk.key
JOIN chunk_set ON chunk_set.key = chunk.set_key
"""
_OUTLINES = ", ".join(f"document.{name} AS document_{name}" for name in OUTLINE_NAMES.split())
_NAMED_CHUNKS = f"{_CHUNKS}, document.id AS document_id {_FROM_CHUNKS}"
SELECT_PASSAGES = f"{_CHUNKS}, {_OUTLINES} {_FROM_CHUNKS}"
"""Chunks with their texts and the outlines of their documents."""

PASSAGE_COLUMNS = (
    *f"{_CHUNK_NAMES} collection chunker_id text".split(),
    *(f"document_{name}" for name in OUTLINE_NAMES.split()),
)

_PRESENT = f"chunk.generation = {CURRENT}"
_BY_KEY = "chunk.key IN (:keys key)"
FINDABLE_KEYS = Statement(f"SELECT key FROM chunk WHERE {FINDABLE} ORDER BY key")
FINDABLE_OF_DOCUMENTS = Statement(
    f"SELECT key FROM chunk WHERE {FINDABLE} AND document_key IN (:documents key) ORDER BY key"
)
PASSAGES = Statement(f"{SELECT_PASSAGES} WHERE {_BY_KEY}")
CHUNKS = Statement(f"{_NAMED_CHUNKS} WHERE {_BY_KEY}")
CHUNKS_OF_DOCUMENT = Statement(
    f"{_NAMED_CHUNKS} "
    "WHERE document.collection = :collection AND document.id = :document_id "
    f"AND {_PRESENT} ORDER BY chunk.key"
)
PARENTS = Statement(f"{_NAMED_CHUNKS} {_NAMED} WHERE chunk.id IN (:parents text) AND {_PRESENT}")
STORED_CHUNKS = Statement(f"""
SELECT document.collection, document.id, chunk_set.chunker_id, chunk_set.model_id, chunk.key
FROM chunk JOIN document ON document.key = chunk.document_key
JOIN chunk_set ON chunk_set.key = chunk.set_key {_NAMED}
WHERE {FINDABLE} ORDER BY chunk.document_key, chunk.key
""")
CHUNKS_AT = Statement(
    "SELECT key, document_key, level, ordinal FROM chunk "
    f"WHERE document_key IN (:owners key) AND ordinal IN (:ordinals key) AND {_PRESENT}"
)
_SAME_LEVEL = f"FROM chunk WHERE document_key = :owner AND level = :level AND {_PRESENT}"
ACROSS_PAGES = Statement(f"""
SELECT
    (SELECT max(ordinal) {_SAME_LEVEL} AND ordinal < :ordinal AND page_last < :first_page),
    (SELECT min(ordinal) {_SAME_LEVEL} AND ordinal > :ordinal AND page_first > :last_page)
""")
VECTORS = Statement("SELECT chunk_key, vector FROM embedding WHERE chunk_key IN (:keys key)")

# Chunks are cut from the document's text, which must be the one that was split.
CACHED_CHUNKS = Statement(f"""
SELECT document.collection, document.id, chunk_cache.content_hash,
    chunk_cache.chunker_id, chunk_cache.model_id, document.text, chunk_cache.chunks,
    chunk_cache.vectors, chunk_cache.checksum, chunk_cache.created_at, chunk_cache.expires_at
FROM document JOIN chunk_cache ON chunk_cache.document_key = document.key
    AND chunk_cache.content_hash = document.content_hash {_NAMED}
WHERE chunk_cache.chunker_id IN (:chunkers text)
    AND chunk_cache.model_id IN (:models text)
""")

# The change log

SEPARATOR = ","
"""Between values that a statement gives as one string."""

HEAD = Statement(
    f"SELECT change, token FROM history WHERE generation = {_OF_LOG} ORDER BY state DESC LIMIT 1"
)
TOKEN_AT = Statement(
    f"SELECT token FROM history WHERE generation = {_OF_LOG} AND change >= :number "
    "ORDER BY change, state LIMIT 1"
)
NTH_CHUNK = Statement(
    f"SELECT key FROM chunk WHERE generation = {_OF_LOG} AND key > :start AND key <= :until "
    "ORDER BY key LIMIT 1 OFFSET :skipped"
)
# As one string: a third of the base may go at once, and as rows of their own these keys would take
# ten times as long, each waiting for the interpreter where other threads are busy.
REMOVED = Statement(
    f"SELECT string_agg(CAST(chunk_key AS TEXT), '{SEPARATOR}') FROM removal "
    f"WHERE generation = {_OF_LOG} AND sequence > :start AND sequence <= :stop"
)
UPDATED = Statement(f"""
SELECT DISTINCT chunk.key
FROM chunk JOIN metadata_update ON metadata_update.document_key = chunk.document_key
WHERE metadata_update.sequence > :start AND metadata_update.sequence <= :stop AND {_FINDABLE}
    AND chunk.generation = {_OF_LOG}
""")
_TEXTS = f"""
SELECT chunk.key, chunk.document_key, document.title, chunk.heading_path, chunk.context, {_TEXT},
    document.collection, document.language
FROM chunk JOIN document ON document.key = chunk.document_key
LEFT JOIN chunk_text ON chunk_text.chunk_key = chunk.key WHERE {_FINDABLE}
"""
ADDED_TEXTS = Statement(
    f"{_TEXTS} AND chunk.generation = {_OF_LOG} AND chunk.key > :start AND chunk.key <= :stop"
)
TEXTS_OF = Statement(f"{_TEXTS} AND {_BY_KEY}")
_OF_MODEL = "SELECT chunk_key, vector FROM embedding WHERE model_id = :model_id"
ADDED_VECTORS = Statement(
    f"{_OF_MODEL} AND generation = {_OF_LOG} AND chunk_key > :start AND chunk_key <= :stop"
)
VECTORS_OF = Statement(f"{_OF_MODEL} AND chunk_key IN (:keys key) ORDER BY chunk_key")

# Keys and tasks of a server

_VALUE = "SELECT name, version, value FROM keyed_value WHERE kind = :kind"
KEYED_VALUE = Statement(f"{_VALUE} AND name = :name")
KEYED_DATA = Statement("SELECT data FROM keyed_value WHERE kind = :kind AND name = :name")
KEYED_VALUES = Statement(f"{_VALUE} AND name > :after ORDER BY name LIMIT :most")

# The files that were read

SOURCE_DOCUMENTS = Statement(
    "SELECT id, source, content_hash, fingerprint FROM document WHERE collection = :collection"
)
WITH_CONTENTS = Statement(
    "SELECT collection, id FROM document WHERE key IN (SELECT min(key) FROM document "
    "WHERE content_hash IN (:hashes text) GROUP BY content_hash)"
)
SOURCE_FILES = Statement(
    "SELECT source, path, size, mtime_ns, options, documents FROM source_file "
    "WHERE collection = :collection"
)

# The fields of chunks as filters see them

CHUNK_PAGES = Statement(
    f"SELECT key, document_key, page_first, page_last FROM chunk WHERE {_BY_KEY} AND {_FINDABLE}"
)
_OWN = ", ".join(
    "id AS document_id" if name == "document_id" else name for name in RESERVED if name != "page"
)
OWN_FIELDS = Statement(f"SELECT key, {_OWN} FROM document WHERE key IN (:keys key)")
ATTRIBUTES = Statement(
    "SELECT document_key, field, kind, text_value, number_value FROM attribute "
    "WHERE document_key IN (:keys key) AND kind != 'group'"
)
