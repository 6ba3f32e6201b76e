"""The change log of a base: what indexes follow, read a range of sequence numbers at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from sqlalchemy import BindParameter, Connection, Text, bindparam, cast, func, select

from lagotto.documents import Vectors, in_context
from lagotto.errors import StoreError
from lagotto.indexes.base import (
    ChunkFields,
    ChunkKeys,
    ChunkText,
    LogPosition,
    TextIndex,
    VectorIndex,
)
from lagotto.stores.sql.chunk_fields import read_fields
from lagotto.stores.sql.languages import main_languages_of
from lagotto.stores.sql.names import in_batches
from lagotto.stores.sql.read import CHUNK_TEXT, TEXT_ROW, unit_vectors
from lagotto.stores.sql.tables import (
    ChunkRow,
    ChunkTextRow,
    DocumentRow,
    EmbeddingRow,
    HistoryRow,
    MetadataUpdateRow,
    RemovalRow,
)

T = TypeVar("T")

AT_ONCE = 5_000
SEPARATOR = ","


class RecordReader(Protocol):
    """Asks the database of record within one transaction, one question at a time."""

    async def ask(self, question: Callable[[Connection], T], *, brief: bool = False) -> T:
        """The answer of a function over the connection.

        `brief` says that it takes less time than changing threads; a connection that needs none
        ignores it.
        """
        ...


def ranges(
    connection: Connection, *, since: int, until: int, at_once: int = AT_ONCE
) -> Iterator[tuple[int, int]]:
    """Ranges of change numbers, first exclusive, last inclusive, with `at_once` chunks each.

    A chunk is a change, so few changes have no more chunks.
    """
    start = since
    while start < until:
        stop = until
        if until - start > at_once:
            asked = {"start": start, "until": until, "skipped": at_once - 1}
            stop = connection.execute(_NTH, asked).scalar_one_or_none() or until
        yield start, stop
        start = stop


class Head(NamedTuple):
    """The state of a base: its last change, and the token of its last commit of any kind."""

    change: int
    token: int

    def position(self, connection: Connection) -> LogPosition:
        """The last change with the token of its own commit."""
        return LogPosition(self.change, token_at(connection, self.change) or 0)


# Built once: the first search after a write asks for all of them, and building a statement takes as
# long as running it.
_NTH = (
    select(ChunkRow.key)
    .where(ChunkRow.key > bindparam("start"), ChunkRow.key <= bindparam("until"))
    .order_by(ChunkRow.key)
    .offset(bindparam("skipped"))
    .limit(1)
)
_HEAD = select(HistoryRow.change, HistoryRow.token).order_by(HistoryRow.state.desc()).limit(1)
_TOKEN_AT = (
    select(HistoryRow.token)
    .where(HistoryRow.change >= bindparam("number"))
    .order_by(HistoryRow.change, HistoryRow.state)
    .limit(1)
)
# As one string: a third of the base may go at once, and as rows of their own these keys would take
# ten times as long, each waiting for the interpreter where other threads are busy.
_REMOVED = select(func.aggregate_strings(cast(RemovalRow.chunk_key, Text), SEPARATOR)).where(
    RemovalRow.sequence > bindparam("start"), RemovalRow.sequence <= bindparam("stop")
)
_UPDATED = (
    select(ChunkRow.key)
    .join(MetadataUpdateRow, MetadataUpdateRow.document_key == ChunkRow.document_key)
    .where(
        MetadataUpdateRow.sequence > bindparam("start"),
        MetadataUpdateRow.sequence <= bindparam("stop"),
        ChunkRow.level != "parent",
    )
    .distinct()
)
_TEXTS = (
    select(
        ChunkRow.key,
        ChunkRow.document_key,
        DocumentRow.title,
        ChunkRow.heading_path,
        CHUNK_TEXT,
        DocumentRow.collection,
        DocumentRow.language,
    )
    .select_from(ChunkRow)
    .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
    .outerjoin(ChunkTextRow, TEXT_ROW)
    .where(ChunkRow.level != "parent")
)
_IN_RANGE = (ChunkRow.key > bindparam("start"), ChunkRow.key <= bindparam("stop"))
_ADDED_TEXTS = _TEXTS.where(*_IN_RANGE)
_KEYS: BindParameter[int] = bindparam("keys", expanding=True)
_TEXTS_OF = _TEXTS.where(ChunkRow.key.in_(_KEYS))
_VECTORS = select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(
    EmbeddingRow.model_id == bindparam("model_id")
)
_ADDED_VECTORS = _VECTORS.where(
    EmbeddingRow.chunk_key > bindparam("start"), EmbeddingRow.chunk_key <= bindparam("stop")
)
_VECTORS_OF = _VECTORS.where(EmbeddingRow.chunk_key.in_(_KEYS)).order_by(EmbeddingRow.chunk_key)


def read_head(connection: Connection) -> Head:
    """The state that a connection sees."""
    return Head(*connection.execute(_HEAD).one())


def token_at(connection: Connection, number: int) -> int | None:
    """The token of the commit that a change belongs to, None if there is no such change."""
    return connection.scalar(_TOKEN_AT, {"number": number}) if number else 0


def removed(connection: Connection, start: int, stop: int) -> ChunkKeys:
    """Keys of the chunks whose removal lies in the range."""
    keys = connection.scalar(_REMOVED, {"start": start, "stop": stop})
    return np.fromstring(keys or "", np.int64, sep=SEPARATOR)


def added_texts(connection: Connection, start: int, stop: int) -> list[ChunkText]:
    """Texts of the chunks in the range that can be found, under their titles and headings.

    Those of unknown language have the main language of their collection.
    """
    return _texts(
        connection, connection.execute(_ADDED_TEXTS, {"start": start, "stop": stop}).all()
    )


def texts_of(connection: Connection, keys: ChunkKeys) -> list[ChunkText]:
    """The same for chunks by their keys."""
    return [
        text
        for some in in_batches(keys.tolist())
        for text in _texts(connection, connection.execute(_TEXTS_OF, {"keys": some}).all())
    ]


def _texts(connection: Connection, rows: Sequence[Any]) -> list[ChunkText]:
    unknown = {row.collection for row in rows if row.language is None}
    main = main_languages_of(connection, unknown)
    return [
        ChunkText(
            row.key,
            row.document_key,
            in_context(row.title, content, headings=row.heading_path),
            row.language or main.get(row.collection),
            row.language,
        )
        for row, content in ((row, row[4]) for row in rows)
    ]


def added_vectors(
    connection: Connection, start: int, stop: int, *, model_id: str, dimension: int
) -> tuple[ChunkKeys, Vectors]:
    """Keys and vectors of the chunks in the range."""
    asked = {"start": start, "stop": stop, "model_id": model_id}
    return _vectors(connection.execute(_ADDED_VECTORS, asked).all(), dimension)


def vectors_of(
    connection: Connection, keys: ChunkKeys, *, model_id: str, dimension: int
) -> tuple[ChunkKeys, Vectors]:
    """Those of `keys` that have vectors, ascending, and these."""
    rows: list[Any] = []
    for some in in_batches(np.sort(keys).tolist()):
        rows += connection.execute(_VECTORS_OF, {"keys": some, "model_id": model_id}).all()
    return _vectors(rows, dimension)


def _vectors(rows: Sequence[Any], dimension: int) -> tuple[ChunkKeys, Vectors]:
    keys = [key for key, _ in rows]
    vectors = unit_vectors(keys, [vector for _, vector in rows])
    return np.array(keys, np.int64), vectors.reshape(-1, dimension)


class SqlChangeLog:
    """The ChangeLog of one state of a SQL record, as a connection sees it."""

    def __init__(
        self,
        connection: Connection,
        *,
        head: LogPosition | None = None,
        reader: RecordReader | None = None,
    ) -> None:
        self.connection = connection
        self._head = head
        self._reader = reader
        self._tokens: dict[int, int | None] = {}
        self._removed: tuple[int, int, ChunkKeys] | None = None

    @property
    def head(self) -> LogPosition:
        if self._head is None:
            self._head = read_head(self.connection).position(self.connection)
        return self._head

    @property
    def reader(self) -> RecordReader:
        """Who asks the record for a search; a transaction that writes has none."""
        if self._reader is None:
            raise StoreError("this change log belongs to a write; open a view to search")
        return self._reader

    def token_at(self, number: int) -> int | None:
        if number not in self._tokens:
            self._tokens[number] = token_at(self.connection, number)
        return self._tokens[number]

    def ranges(self, *, since: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, int]]:
        return ranges(self.connection, since=since, until=self.head.number, at_once=at_once)

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        return added_texts(self.connection, start, stop)

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        return added_vectors(self.connection, start, stop, model_id=model_id, dimension=dimension)

    def removed(self, start: int, stop: int) -> ChunkKeys:
        """Kept for the next index, which mostly asks for the same range."""
        if self._removed is None or self._removed[:2] != (start, stop):
            self._removed = (start, stop, removed(self.connection, start, stop))
        return self._removed[2]

    def updated(self, start: int, stop: int) -> ChunkKeys:
        asked = {"start": start, "stop": stop}
        return np.array(self.connection.scalars(_UPDATED, asked).all(), np.int64)

    def texts_of(self, keys: ChunkKeys) -> list[ChunkText]:
        return texts_of(self.connection, keys)

    def vectors_of(
        self, keys: ChunkKeys, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        return vectors_of(self.connection, keys, model_id=model_id, dimension=dimension)

    def fields_of(self, keys: ChunkKeys) -> list[ChunkFields]:
        return read_fields(self.connection, keys)

    async def run(self, work: Callable[[], T]) -> T:
        return await self.reader.ask(lambda _connection: work())


AnyIndex = TextIndex[SqlChangeLog] | VectorIndex[SqlChangeLog]
