"""Reading documents and chunks back; plain functions over a Connection, as in `write`."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BindParameter,
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    cast,
    func,
    select,
    tuple_,
)

from lagotto.documents import Chunk, Document, Vectors
from lagotto.errors import StoreDamagedError
from lagotto.filters import Filter, matches
from lagotto.filters.unknown_fields import metadata_fields, unknown_field_notes
from lagotto.garbage_collection import paused_collector
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.stores.base import Passage, StoredChunks, Version
from lagotto.stores.sql.filters import concerns_chunks, condition
from lagotto.stores.sql.names import in_batches, is_named, keys_by_name
from lagotto.stores.sql.rows import CHUNK_COLUMNS, OUTLINE_COLUMNS, chunk_of, document_of
from lagotto.stores.sql.tables import (
    AttributeRow,
    ChunkRow,
    ChunkSetRow,
    ChunkTextRow,
    Counter,
    DocumentRow,
    EmbeddingRow,
)

UNIT_TOLERANCE = 2e-3
"""Of a squared norm: what an index takes for a unit vector."""

PAGE = 500
"""Documents that a listing reads at once."""

Page = tuple[list[Document], tuple[str, str] | None]
"""Documents, and the collection and id after which the next page starts."""


CHUNK_TEXT = func.coalesce(
    ChunkTextRow.text,
    func.substr(
        DocumentRow.text,
        cast(ChunkRow.start + 1, Integer),
        cast(ChunkRow.end - ChunkRow.start, Integer),
    ),
)
"""The text of a chunk; cut out of its document's if its own row is lost.

The statement joins ChunkTextRow with `TEXT_ROW`, outer.
"""

TEXT_ROW = ChunkTextRow.chunk_key == ChunkRow.key


def counter(connection: Connection, name: str) -> int:
    """The last number given out."""
    return int(connection.execute(_COUNTER, {"name": name}).scalar_one())


def findable_keys(connection: Connection) -> ChunkKeys:
    """Keys of all chunks that can be found, ascending."""
    statement = select(ChunkRow.key).where(ChunkRow.level != "parent").order_by(ChunkRow.key)
    return np.array(connection.scalars(statement).all(), np.int64)


def read_document(connection: Connection, collection: str, document_id: str) -> Document | None:
    """A document, whole."""
    statement = select(DocumentRow.__table__).where(
        DocumentRow.collection == collection, DocumentRow.id == document_id
    )
    row = (connection.execute(statement)).one_or_none()
    return document_of(row._mapping) if row else None


def read_sources(connection: Connection, names: Sequence[tuple[str, str]]) -> list[Document]:
    """The documents of these collections and ids, whole, in that order."""
    found: dict[tuple[str, str], Document] = {}
    for batch in in_batches(names):
        some = is_named(batch)
        for row in connection.execute(select(DocumentRow.__table__).where(some)):
            document = document_of(row._mapping)
            found[document.collection, document.id] = document
    return [found[name] for name in names if name in found]


def matching_documents(connection: Connection, where: Filter) -> Iterator[tuple[int, Document]]:
    """Keys and outlines of the documents that match, in order of collection and id."""
    whole = concerns_chunks(where)  # the pages of a document stand in its structure
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    statement = select(*columns).order_by(DocumentRow.collection, DocumentRow.id)
    if not whole:
        statement = statement.where(condition(where))
    for row in connection.execute(statement):
        document = document_of(row._mapping)
        if not whole or matches(where, document):
            yield row.key, document


def matching_page(
    connection: Connection, where: Filter, after: tuple[str, str] | None, *, size: int = PAGE
) -> Page:
    """The next documents that match, after a collection and id; and where the next page starts.

    A document that matches throughout is on exactly one page, whatever is written between them.
    """
    whole = concerns_chunks(where)
    columns = list(DocumentRow.__table__.columns) if whole else OUTLINE_COLUMNS
    name = tuple_(DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).order_by(*name.clauses).limit(size)
    if after is not None:
        statement = statement.where(name > after)
    if not whole:
        statement = statement.where(condition(where))
    rows = connection.execute(statement).all()
    documents = [document_of(row._mapping) for row in rows]
    last = (rows[-1].collection, rows[-1].id) if len(rows) == size else None
    return [item for item in documents if not whole or matches(where, item)], last


async def paged_documents(
    read: Callable[[Callable[[Connection], Page]], Awaitable[Page]], where: Filter
) -> AsyncIterator[Document]:
    """The documents that match, a page at a time; `read` asks one state of the base."""
    after: tuple[str, str] | None = None
    while True:
        page, after = await read(partial(matching_page, where=where, after=after))
        for document in page:
            yield document
        if after is None:
            return


class DocumentName(NamedTuple):
    """What a document is called: by the database, and by its collection and id."""

    key: int
    collection: str
    id: str


def matching_names(connection: Connection, where: Filter) -> list[DocumentName]:
    """Keys and names of the documents that match, in order of collection and id."""
    if concerns_chunks(where):
        found = matching_documents(connection, where)
        return [DocumentName(key, item.collection, item.id) for key, item in found]
    columns = (DocumentRow.key, DocumentRow.collection, DocumentRow.id)
    statement = select(*columns).where(condition(where))
    rows = connection.execute(statement.order_by(DocumentRow.collection, DocumentRow.id))
    return [DocumentName(*row) for row in rows]


def matching_chunks(connection: Connection, where: Filter) -> ChunkKeys:
    """Keys of the chunks that can be found and match, ascending."""
    keys = connection.scalars(chunks_that_match(where).order_by(ChunkRow.key)).all()
    return np.fromiter(keys, np.int64, len(keys))


def resolve_filter(connection: Connection, where: Filter) -> FilterKeys:
    """The chunks that can be found and match."""
    keys = matching_chunks(connection, where)
    if concerns_chunks(where):
        return FilterKeys(keys, where=where)
    documents = connection.scalars(select(DocumentRow.key).where(condition(where))).all()
    return FilterKeys(keys, np.fromiter(documents, np.int64, len(documents)), where)


def filter_notes(connection: Connection, where: Filter) -> tuple[str, ...]:
    """Notes on the fields of a filter that no document has."""
    asked = metadata_fields(where)
    unknown = {
        name
        for name in asked
        if connection.scalar(select(AttributeRow.field).where(AttributeRow.field == name).limit(1))
        is None
    }
    if not unknown:
        return ()
    known = connection.scalars(select(AttributeRow.field).distinct()).all()
    return unknown_field_notes(unknown, known)


def chunks_that_match(where: Filter) -> Select[int]:
    """Asks for the keys of the chunks that can be found and match."""
    found = select(ChunkRow.key).where(ChunkRow.level != "parent")
    if concerns_chunks(where):
        found = found.join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        return found.where(condition(where))
    documents = select(DocumentRow.key).where(condition(where))
    return found.where(ChunkRow.document_key.in_(documents))


def read_versions(
    connection: Connection, collection: str, ids: Sequence[str]
) -> dict[str, Version]:
    """What is stored of each document, and what its chunks were made with."""
    found: dict[str, Version] = {}
    for some in in_batches(ids):
        statement = (
            select(
                DocumentRow.id,
                DocumentRow.content_hash,
                DocumentRow.language,
                DocumentRow.fingerprint,
                ChunkSetRow.chunker_id,
                ChunkSetRow.model_id,
            )
            .outerjoin(ChunkSetRow, ChunkSetRow.document_key == DocumentRow.key)
            .where(DocumentRow.collection == collection)
            .where(DocumentRow.id.in_(some))
        )
        for row in connection.execute(statement):
            made_by = (row.chunker_id, row.model_id) if row.chunker_id else None
            found[row.id] = Version(row.content_hash, row.language, row.fingerprint, made_by)
    return found


def read_chunks(connection: Connection, collection: str, document_id: str) -> list[Chunk]:
    """The chunks of a document, parents first."""
    statement = _chunks().where(DocumentRow.collection == collection, DocumentRow.id == document_id)
    rows = connection.execute(statement.order_by(ChunkRow.key))
    return [
        chunk_of(dict(row._mapping), collection=collection, document_id=document_id) for row in rows
    ]


def read_parents(connection: Connection, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    """The parents of `chunks`, by id."""
    wanted = sorted({(item.collection, item.document_id, item.parent_id or "") for item in chunks})
    found: dict[str, Chunk] = {}
    for some in in_batches(wanted):
        statement = _chunks().add_columns(
            DocumentRow.collection, DocumentRow.id.label("document_id")
        )
        documents = is_named((collection, name) for collection, name, _ in some)  # by the index
        name = tuple_(DocumentRow.collection, DocumentRow.id, ChunkRow.id)
        rows = connection.execute(statement.where(documents, name.in_(some)))
        for row in rows:
            parent = chunk_of(
                dict(row._mapping), collection=row.collection, document_id=row.document_id
            )
            found[parent.id] = parent
    return found


def read_neighbours(
    connection: Connection, chunks: Sequence[Chunk], *, near: int, across: int
) -> list[Chunk]:
    """The chunks of the same document and level around each of `chunks`, in document order."""
    owners = keys_by_name(connection, sorted({(c.collection, c.document_id) for c in chunks}))
    wanted: set[tuple[int, str, int]] = set()
    for chunk in chunks:
        owner = owners.get((chunk.collection, chunk.document_id))
        if owner is not None:
            ordinals = _ordinals_around(connection, owner, chunk, near=near, across=across)
            wanted |= {(owner, chunk.level, ordinal) for ordinal in ordinals}
    names = {key: name for name, key in owners.items()}
    found = [
        chunk_of(dict(row._mapping), collection=names[key][0], document_id=names[key][1])
        for row in _chunks_at(connection, sorted(wanted))
        for key in (row.document_key,)
    ]
    return sorted(found, key=lambda c: (c.collection, c.document_id, c.level, c.ordinal))


def _ordinals_around(
    connection: Connection, owner: int, chunk: Chunk, *, near: int, across: int
) -> set[int]:
    """The ordinals, present or not, of a chunk's neighbours."""
    ordinals = set(range(chunk.ordinal - near, chunk.ordinal + near + 1))
    if across and chunk.pages is not None:
        first, last = chunk.pages
        position = {"owner": owner, "level": chunk.level, "ordinal": chunk.ordinal}
        pages = {"first_page": first, "last_page": last}
        before, after = connection.execute(_ACROSS_PAGES, position | pages).one()
        if before is not None:
            ordinals |= set(range(before - across + 1, before + 1))
        if after is not None:
            ordinals |= set(range(after, after + across))
    return ordinals


def _chunks_at(
    connection: Connection, positions: Sequence[tuple[int, str, int]]
) -> Iterator[Row[Any]]:
    """The chunks with these document keys, levels and ordinals."""
    place = tuple_(ChunkRow.document_key, ChunkRow.level, ChunkRow.ordinal)
    for some in in_batches(positions):
        documents = sorted({owner for owner, _, _ in some})  # named apart, to be found by an index
        statement = _chunks().where(ChunkRow.document_key.in_(documents), place.in_(some))
        yield from connection.execute(statement)


def read_stored(
    connection: Connection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], StoredChunks]:
    """The chunks of documents that can be found, by collection and id."""
    found: dict[tuple[str, str], StoredChunks] = {}
    for some in in_batches(names):
        statement = (
            select(
                DocumentRow.collection,
                DocumentRow.id,
                ChunkSetRow.chunker_id,
                ChunkSetRow.model_id,
                ChunkRow.key,
            )
            .select_from(ChunkRow)
            .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
            .join(ChunkSetRow, ChunkSetRow.key == ChunkRow.set_key)
            .where(is_named(some), ChunkRow.level != "parent")
            .order_by(ChunkRow.document_key, ChunkRow.key)
        )
        groups = groupby(connection.execute(statement), key=lambda row: tuple(row[:4]))
        for (collection, name, *made_by), rows in groups:
            keys = np.fromiter((row.key for row in rows), np.int64)
            found[collection, name] = StoredChunks(keys, *made_by)
    return found


def read_vectors(connection: Connection, keys: Sequence[int]) -> Vectors:
    """The vectors of `keys`, in that order; a base has those of one model."""
    found: dict[int, bytes] = {}
    for batch in in_batches(keys):
        some = EmbeddingRow.chunk_key.in_(batch)
        rows = connection.execute(select(EmbeddingRow.chunk_key, EmbeddingRow.vector).where(some))
        found |= {row.chunk_key: row.vector for row in rows}
    if missing := set(keys) - set(found):
        raise ValueError(f"the chunk {min(missing)} has no vector")
    return unit_vectors(keys, [found[key] for key in keys])


def unit_vectors(keys: Sequence[int], stored: Sequence[bytes]) -> Vectors:
    """The vectors of chunks as stored; a damaged one is an error, since it could outrank all."""
    sizes = set(map(len, stored))
    if len(sizes) > 1 or any(size % 4 for size in sizes):
        raise _damaged_vector("vectors have different sizes")
    rows = np.frombuffer(b"".join(stored), "<f4").astype(np.float32)
    rows = rows.reshape(len(keys), -1 if keys else 0)
    if len(broken := np.flatnonzero(~are_units(rows))):
        raise _damaged_vector(f"the vector of the chunk {keys[broken[0]]} is not of length 1")
    return rows


def are_units(rows: Vectors) -> NDArray[np.bool_]:
    """Which of the rows are finite vectors of length 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.vecdot(rows, rows)
    units: NDArray[np.bool_] = np.abs(norms - 1) < UNIT_TOLERANCE
    return units


def _damaged_vector(problem: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the database is damaged: {problem}; `lagotto doctor` names the documents, remove them "
        "and add them again"
    )


def read_passages(connection: Connection, keys: Sequence[int]) -> dict[int, Passage]:
    """The chunks of `keys` with their texts and the outlines of their documents."""
    found: dict[int, Passage] = {}
    for some in in_batches(keys):
        rows = connection.execute(_PASSAGES, {"keys": list(map(int, some))})
        names = tuple(rows.keys())
        with paused_collector():
            found |= passages_of(dict(zip(names, row, strict=True)) for row in rows)
    return found


def passages_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, Passage]:
    """Passages by their keys, from rows of `select_passages`."""
    found: dict[int, Passage] = {}
    documents: dict[int, Document] = {}
    for fields in rows:
        owner = fields["document_key"]
        if owner not in documents:
            names = OUTLINE_LABELS.items()
            documents[owner] = document_of({name: fields[label] for name, label in names})
        document = documents[owner]
        chunk = chunk_of(fields, collection=document.collection, document_id=document.id)
        found[fields["key"]] = Passage(fields["key"], chunk, document)
    return found


def select_passages() -> Select[Any]:
    """Asks for chunks with their texts and the outlines of their documents."""
    labels = OUTLINE_LABELS
    return _chunks().add_columns(*(column.label(labels[column.name]) for column in OUTLINE_COLUMNS))


def _chunks() -> Select[Any]:
    return (
        select(*CHUNK_COLUMNS, ChunkSetRow.chunker_id, CHUNK_TEXT.label("text"))
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .outerjoin(ChunkTextRow, TEXT_ROW)
        .join(ChunkSetRow, ChunkSetRow.key == ChunkRow.set_key)
    )


OUTLINE_LABELS = {column.name: f"document_{column.name}" for column in OUTLINE_COLUMNS}
OUTLINE_LABELS["key"] = "owner_key"

# Made once: a search asks for these, and putting a statement together takes as long as running it.
_KEYS: BindParameter[int] = bindparam("keys", expanding=True)
_PASSAGES = select_passages().where(ChunkRow.key.in_(_KEYS))
_SAME_LEVEL = (
    ChunkRow.document_key == bindparam("owner"),
    ChunkRow.level == bindparam("level"),
)
_ACROSS_PAGES = select(
    select(func.max(ChunkRow.ordinal))
    .where(*_SAME_LEVEL, ChunkRow.ordinal < bindparam("ordinal"))
    .where(ChunkRow.page_last < bindparam("first_page"))
    .scalar_subquery(),
    select(func.min(ChunkRow.ordinal))
    .where(*_SAME_LEVEL, ChunkRow.ordinal > bindparam("ordinal"))
    .where(ChunkRow.page_first > bindparam("last_page"))
    .scalar_subquery(),
)
_COUNTER = select(Counter.value).where(Counter.name == bindparam("name"))
