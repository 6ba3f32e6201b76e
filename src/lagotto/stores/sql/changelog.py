"""The change log of a base: what indexes follow, read a range of sequence numbers at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from sqlalchemy import Connection, select

from lagotto.documents import Vectors, in_context
from lagotto.errors import StoreError
from lagotto.indexes.base import ChunkKeys, ChunkText, LogPosition
from lagotto.stores.languages import main_language
from lagotto.stores.sql.read import CHUNK_TEXT, TEXT_ROW, language_counts, unit_vectors
from lagotto.stores.sql.tables import (
    ChunkRow,
    ChunkTextRow,
    DocumentRow,
    EmbeddingRow,
    HistoryRow,
    RemovalRow,
)

T = TypeVar("T")

AT_ONCE = 5_000


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
    """Ranges of change numbers, first exclusive, last inclusive, with `at_once` chunks each."""
    start = since
    while start < until:
        nth = (
            select(ChunkRow.key)
            .where(ChunkRow.key > start, ChunkRow.key <= until)
            .order_by(ChunkRow.key)
            .offset(at_once - 1)
            .limit(1)
        )
        stop = (connection.execute(nth)).scalar_one_or_none() or until
        yield start, stop
        start = stop


class Head(NamedTuple):
    """The state of a base: its last change, and the token of its last commit of any kind."""

    change: int
    token: int

    def position(self, connection: Connection) -> LogPosition:
        """The last change with the token of its own commit."""
        return LogPosition(self.change, token_at(connection, self.change) or 0)


# Built once: every search asks for it, and building a statement takes as long as running it.
_HEAD = select(HistoryRow.change, HistoryRow.token).order_by(HistoryRow.state.desc()).limit(1)


def read_head(connection: Connection) -> Head:
    """The state that a connection sees."""
    return Head(*connection.execute(_HEAD).one())


def token_at(connection: Connection, number: int) -> int | None:
    """The token of the commit that a change belongs to, None if there is no such change."""
    if number == 0:
        return 0
    statement = (
        select(HistoryRow.token)
        .where(HistoryRow.change >= number)
        .order_by(HistoryRow.change, HistoryRow.state)
        .limit(1)
    )
    return connection.scalar(statement)


def removed(connection: Connection, start: int, stop: int) -> ChunkKeys:
    """Keys of the chunks whose removal lies in the range."""
    statement = select(RemovalRow.chunk_key).where(
        RemovalRow.sequence > start, RemovalRow.sequence <= stop
    )
    return np.array((connection.scalars(statement)).all(), np.int64)


def added_texts(connection: Connection, start: int, stop: int) -> list[ChunkText]:
    """Texts of the chunks in the range that can be found, under their titles and headings.

    Those of unknown language have the main language of their collection.
    """
    statement = (
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
        .where(ChunkRow.key > start, ChunkRow.key <= stop, ChunkRow.level != "parent")
    )
    rows = connection.execute(statement).all()
    unknown = any(row.language is None for row in rows)
    counts = language_counts(connection) if unknown else {}
    return [
        ChunkText(
            row.key,
            row.document_key,
            in_context(row.title, content, headings=row.heading_path),
            row.language or main_language(counts, row.collection),
            row.language,
        )
        for row, content in ((row, row[4]) for row in rows)
    ]


def added_vectors(
    connection: Connection, start: int, stop: int, *, model_id: str, dimension: int
) -> tuple[ChunkKeys, Vectors]:
    """Keys and vectors of the chunks in the range."""
    statement = select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(
        EmbeddingRow.chunk_key > start,
        EmbeddingRow.chunk_key <= stop,
        EmbeddingRow.model_id == model_id,
    )
    rows = (connection.execute(statement)).all()
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
        return token_at(self.connection, number)

    def ranges(self, *, since: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, int]]:
        return ranges(self.connection, since=since, until=self.head.number, at_once=at_once)

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        return added_texts(self.connection, start, stop)

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        return added_vectors(self.connection, start, stop, model_id=model_id, dimension=dimension)

    def removed(self, start: int, stop: int) -> ChunkKeys:
        return removed(self.connection, start, stop)

    async def run(self, work: Callable[[], T]) -> T:
        return await self.reader.ask(lambda _connection: work())
