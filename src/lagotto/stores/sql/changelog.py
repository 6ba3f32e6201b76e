"""The change log of a base: what indexes follow, read a range of sequence numbers at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

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
from lagotto.stores.sql.queries import SEPARATOR, NamedQuery, ReadConnection
from lagotto.stores.sql.read import unit_vectors

T = TypeVar("T")

AT_ONCE = 5_000


class RecordReader(Protocol):
    """Asks the database of record within one transaction, one question at a time."""

    async def ask(self, question: Callable[[ReadConnection], T], *, brief: bool = False) -> T:
        """The answer of a function over the connection.

        `brief` says that it takes less time than changing threads; a connection that needs none
        ignores it.
        """
        ...


def ranges(
    connection: ReadConnection, *, since: int, until: int, at_once: int = AT_ONCE
) -> Iterator[tuple[int, int]]:
    """Ranges of change numbers, first exclusive, last inclusive, with `at_once` chunks each.

    A chunk is a change, so few changes have no more chunks.
    """
    start = since
    while start < until:
        stop = until
        if until - start > at_once:
            stop = _NTH.scalar(connection, start=start, until=until, skipped=at_once - 1) or until
        yield start, stop
        start = stop


class Head(NamedTuple):
    """The state of a base: its last change, and the token of its last commit of any kind."""

    change: int
    token: int

    def position(self, connection: ReadConnection) -> LogPosition:
        """The last change with the token of its own commit."""
        return LogPosition(self.change, token_at(connection, self.change) or 0)


_NTH = NamedQuery("NTH_CHUNK")
_HEAD = NamedQuery("HEAD")
_TOKEN_AT = NamedQuery("TOKEN_AT")
_REMOVED = NamedQuery("REMOVED")
_UPDATED = NamedQuery("UPDATED")
_ADDED_TEXTS = NamedQuery("ADDED_TEXTS")
_TEXTS_OF = NamedQuery("TEXTS_OF")
_ADDED_VECTORS = NamedQuery("ADDED_VECTORS")
_VECTORS_OF = NamedQuery("VECTORS_OF")


def read_head(connection: ReadConnection) -> Head:
    """The state that a connection sees."""
    ((change, token),) = _HEAD.rows(connection)
    return Head(change, token)


def token_at(connection: ReadConnection, number: int) -> int | None:
    """The token of the commit that a change belongs to, None if there is no such change."""
    token: int | None = _TOKEN_AT.scalar(connection, number=number) if number else 0
    return token


def removed(connection: ReadConnection, start: int, stop: int) -> ChunkKeys:
    """Keys of the chunks whose removal lies in the range."""
    keys = _REMOVED.scalar(connection, start=start, stop=stop)
    return np.fromstring(keys or "", np.int64, sep=SEPARATOR)


def added_texts(connection: ReadConnection, start: int, stop: int) -> list[ChunkText]:
    """Texts of the chunks in the range that can be found, under their titles and headings.

    Those of unknown language have the main language of their collection.
    """
    return _texts(connection, _ADDED_TEXTS.rows(connection, start=start, stop=stop))


def texts_of(connection: ReadConnection, keys: ChunkKeys) -> list[ChunkText]:
    """The same for chunks by their keys."""
    return [
        text
        for some in in_batches(keys.tolist())
        for text in _texts(connection, _TEXTS_OF.rows(connection, keys=some))
    ]


def _texts(connection: ReadConnection, rows: Sequence[Sequence[Any]]) -> list[ChunkText]:
    unknown = {collection for *_, collection, language in rows if language is None}
    main = main_languages_of(connection, unknown)
    return [
        ChunkText(
            key,
            owner,
            in_context(title, text, headings=heading_path),
            language or main.get(collection),
            language,
        )
        for key, owner, title, heading_path, text, collection, language in rows
    ]


def added_vectors(
    connection: ReadConnection, start: int, stop: int, *, model_id: str, dimension: int
) -> tuple[ChunkKeys, Vectors]:
    """Keys and vectors of the chunks in the range."""
    rows = _ADDED_VECTORS.rows(connection, start=start, stop=stop, model_id=model_id)
    return _vectors(rows, dimension)


def vectors_of(
    connection: ReadConnection, keys: ChunkKeys, *, model_id: str, dimension: int
) -> tuple[ChunkKeys, Vectors]:
    """Those of `keys` that have vectors, ascending, and these."""
    rows: list[Any] = []
    for some in in_batches(np.sort(keys).tolist()):
        rows += _VECTORS_OF.rows(connection, keys=some, model_id=model_id)
    return _vectors(rows, dimension)


def _vectors(rows: Sequence[Any], dimension: int) -> tuple[ChunkKeys, Vectors]:
    keys = [key for key, _ in rows]
    vectors = unit_vectors(keys, [vector for _, vector in rows])
    return np.array(keys, np.int64), vectors.reshape(-1, dimension)


class SqlChangeLog:
    """The ChangeLog of one state of a SQL record, as a connection sees it."""

    def __init__(
        self,
        connection: ReadConnection,
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
        return np.array(_UPDATED.column(self.connection, start=start, stop=stop), np.int64)

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
