"""The change log of a base, read a range of sequence numbers at a time; fields and languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from lagotto.documents import JsonScalar, Vectors, in_context
from lagotto.errors import StoreError
from lagotto.indexes import base
from lagotto.indexes.base import ChunkKeys, ChunkText, LogPosition
from lagotto.stores.base import LanguageCounts, main_language, query_languages
from lagotto.stores.sql import read, statements
from lagotto.stores.sql.statements import SEPARATOR, ReadConnection, Statement

FIRST_LIMIT = 100
GROWTH = 16


def main_languages(connection: ReadConnection) -> list[str | None]:
    """The languages to stem a query in."""
    counts = dict[str | None, int](_ordering_counts(connection, statements.LANGUAGES).items())
    if statements.ANY_UNKNOWN_LANGUAGE.scalar(connection):
        counts[None] = 1
    return query_languages(counts)


def main_languages_of(
    connection: ReadConnection, collections: Collection[str]
) -> dict[str, str | None]:
    """The language of most documents of each collection, None if none is known."""
    if len(collections) > 1:  # all are counted in the time of a few
        counts = language_counts(connection)
    else:
        counts = {
            name: _ordering_counts(connection, statements.LANGUAGES_OF_COLLECTION, collection=name)
            for name in collections
        }
    return {name: main_language(counts, name) for name in collections}


def language_counts(connection: ReadConnection) -> LanguageCounts:
    """How many documents of each collection are in each language."""
    counts: dict[str, dict[str, int]] = {}
    for collection, language, count in statements.LANGUAGE_COUNTS.rows(connection):
        counts.setdefault(collection, {})[_name(language)] = count
    return counts


def _ordering_counts(connection: ReadConnection, query: Statement, **values: str) -> dict[str, int]:
    """Numbers of documents that put the languages in their order.

    Most bases have one main language, so the others are counted soon, and of the main one it is
    enough to know that it has more: a search after a write need not walk through all documents.
    """
    limit = FIRST_LIMIT
    while True:
        rows = query.rows(connection, most=limit, **values)
        counts = {_name(language): count for language, count in rows if count}
        if sum(count == limit for count in counts.values()) < 2:
            return counts
        limit *= GROWTH


def _name(language: Any) -> str:
    """A stored language, blank for what is not a text."""
    return language if isinstance(language, str) else ""


T = TypeVar("T")

AT_ONCE = 5_000

MOST_PAGES = 10_000
"""Pages of a chunk: one that claims to span billions has not a number for each."""


class RecordReader(Protocol):
    """Asks the database of record within one transaction, one question at a time."""

    async def ask(self, question: Callable[[ReadConnection], T], *, brief: bool = False) -> T:
        """The answer of a function over the connection.

        `brief` says that it takes less time than changing threads; a connection that needs none
        ignores it.
        """


def read_head(connection: ReadConnection, generation: int | None = None) -> tuple[int, int]:
    """The last change of a generation, and the token of its last commit of any kind.

    As a connection sees it; of the current generation for None.
    """
    ((change, token),) = statements.HEAD.rows(connection, generation=generation)
    return change, token


class SqlChangeLog(base.ChangeLog):
    """The ChangeLog of one state of a SQL record, as a connection sees it.

    It is that of one generation: None is the current one.
    """

    def __init__(
        self,
        connection: ReadConnection,
        *,
        head: LogPosition | None = None,
        reader: RecordReader | None = None,
        generation: int | None = None,
    ) -> None:
        self.connection = connection
        self.generation = generation
        self._head = head
        self._reader = reader
        self.damaged: set[int] = set()
        """The chunks whose vectors were asked for and are none."""
        self._tokens: dict[int, int | None] = {0: 0}
        self._removed: tuple[int, int, ChunkKeys] | None = None

    @property
    def head(self) -> LogPosition:
        """The last change with the token of its own commit."""
        if self._head is None:
            change, _ = read_head(self.connection, self.generation)
            self._head = LogPosition(change, self.token_at(change) or 0)
        return self._head

    @property
    def reader(self) -> RecordReader:
        """Who asks the record for a search; a transaction that writes has none."""
        if self._reader is None:
            raise StoreError("this change log belongs to a write; open a view to search")
        return self._reader

    def token_at(self, seq: int) -> int | None:
        if seq not in self._tokens:
            parameters = {"number": seq, "generation": self.generation}
            self._tokens[seq] = statements.TOKEN_AT.scalar(self.connection, **parameters)
        return self._tokens[seq]

    def ranges(self, *, since: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, int]]:
        """A chunk is a change, so few changes have no more chunks."""
        start, last = since, self.head.seq
        while start < last:
            stop = last
            if last - start > at_once:
                parameters = {"start": start, "until": last, "skipped": at_once - 1}
                nth = statements.NTH_CHUNK.scalar(
                    self.connection, **parameters, generation=self.generation
                )
                stop = nth or last
            yield start, stop
            start = stop

    def added_texts(self, start: int, stop: int) -> list[ChunkText]:
        """Those of unknown language have the main language of their collection."""
        return self._texts(self._between(statements.ADDED_TEXTS, start, stop))

    def added_vectors(
        self, start: int, stop: int, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        rows = self._between(statements.ADDED_VECTORS, start, stop, model_id=model_id)
        return self._whole(rows, dimension)

    def removed(self, start: int, stop: int) -> ChunkKeys:
        """Kept for the next index, which mostly asks for the same range."""
        if self._removed is None or self._removed[:2] != (start, stop):
            ((joined,),) = self._between(statements.REMOVED, start, stop)
            keys = np.fromstring(joined or "", np.int64, sep=SEPARATOR)
            self._removed = (start, stop, keys)
        return self._removed[2]

    def updated(self, start: int, stop: int) -> ChunkKeys:
        rows = self._between(statements.UPDATED, start, stop)
        return np.array([key for (key,) in rows], np.int64)

    def texts_of(self, keys: ChunkKeys) -> list[ChunkText]:
        return self._texts(statements.TEXTS_OF.rows(self.connection, keys=keys.tolist()))

    def vectors_of(
        self, keys: ChunkKeys, *, model_id: str, dimension: int
    ) -> tuple[ChunkKeys, Vectors]:
        parameters = {"keys": keys.tolist(), "model_id": model_id}
        return self._whole(statements.VECTORS_OF.rows(self.connection, **parameters), dimension)

    def fields_of(self, keys: ChunkKeys) -> list[base.ChunkFields]:
        chunks = statements.CHUNK_PAGES.rows(self.connection, keys=keys.tolist())
        documents = _document_fields(self.connection, sorted({owner for _, owner, *_ in chunks}))
        chunk_fields = []
        for key, owner, first, last in chunks:
            fields = dict(documents[owner])
            if first is not None and last is not None:
                fields["page"] = tuple(range(first, min(last, first + MOST_PAGES) + 1))
            chunk_fields.append(base.ChunkFields(key, str(fields["collection"][0]), fields))
        return chunk_fields

    async def run(self, work: Callable[[], T]) -> T:
        return await self.reader.ask(lambda _connection: work())

    def _between(
        self, statement: Statement, start: int, stop: int, **values: str
    ) -> Sequence[Sequence[Any]]:
        return statement.rows(
            self.connection, start=start, stop=stop, generation=self.generation, **values
        )

    def _texts(self, rows: Sequence[Sequence[Any]]) -> list[ChunkText]:
        unknown = {collection for *_, collection, language in rows if language is None}
        main = main_languages_of(self.connection, unknown)

        def chunk_text(row: Sequence[Any]) -> ChunkText:
            key, owner, title, headings, above, text, collection, language = row
            try:
                path = read.heading_path_of(headings)
                context = in_context(title, text, headings=path, context=above or "")
                if not all(isinstance(value, str | None) for value in (title, text, language)):
                    raise TypeError("a text is of another type")
                return ChunkText(key, owner, context, language or main.get(collection), language)
            except read.MALFORMED as exc:
                what = f"the chunk {key} of the collection {collection!r}"
                raise read.UnreadableRow(what, exc) from exc

        return list(read.readable(chunk_text, rows))

    def _whole(self, rows: Sequence[Sequence[Any]], dimension: int) -> tuple[ChunkKeys, Vectors]:
        keys, vectors = read.unit_vectors(rows, dimension)
        if len(keys) < len(rows):
            self.damaged |= {key for key, _ in rows} - set(keys.tolist())
        return keys, vectors


AnyIndex = base.TextIndex[SqlChangeLog] | base.VectorIndex[SqlChangeLog]


def _document_fields(
    connection: ReadConnection, keys: Sequence[int]
) -> dict[int, dict[str, tuple[JsonScalar, ...]]]:
    fields: dict[int, dict[str, tuple[JsonScalar, ...]]] = {
        record.pop("key"): {name: (value,) for name, value in record.items() if value is not None}
        for record in statements.OWN_FIELDS.records(connection, keys=keys)
    }
    values: dict[tuple[int, str], list[JsonScalar]] = defaultdict(list)
    for owner, field, kind, text, number in statements.ATTRIBUTES.rows(connection, keys=keys):
        if kind == "text":
            values[owner, field].append(str(text))
        elif kind == "boolean":
            values[owner, field].append(bool(number))
        elif isinstance(number, int | float):
            values[owner, field].append(number)
        else:  # a driver's decimal
            exact = int(number) if number == int(number) else float(number)
            values[owner, field].append(exact)
    for (document, field), some in values.items():
        fields[document][field] = tuple(some)
    return fields
