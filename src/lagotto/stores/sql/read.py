"""Reading a base back: settings, documents and chunks; plain functions over a connection."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from lagotto._internal.memory import paused_collector
from lagotto.documents import LANGUAGE_TAG, Chunk, ChunkSection, Document, Vectors, iso, storable
from lagotto.filters.algebra import kind_of
from lagotto.filters.fields import field_name
from lagotto.indexes.base import ChunkKeys, IndexState
from lagotto.stores.base import BaseConfig, Passage, StoredChunks, StoreInfo, Version, fingerprint
from lagotto.stores.sql import statements
from lagotto.stores.sql.statements import ReadConnection

log = logging.getLogger(__name__)

Row = TypeVar("Row")

T = TypeVar("T")

CONFIG = tuple(BaseConfig.model_fields)
"""The settings that say what a base was made with."""

MANY = 100
"""Passages for which it is worth to pause the garbage collector."""

AT_ONCE = 500
"""How many values go into one query."""

MOST_PAIRS = 5_000
"""How many pairs of a collection and an id one query looks up; see `asked_names`."""

UNIT_TOLERANCE = 2e-3
"""Of a squared norm: what an index takes for a unit vector."""

Buffer = bytes | memoryview  # of the drivers

OUTLINE = "document_"
"""What the fields of a passage's document begin with."""

STRUCTURE = ("pages", "headings", "blocks")

MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What making a record of the wrong values raises."""


def setting(connection: ReadConnection, name: str) -> str | None:
    """A setting of the base, None if it is not set."""
    value: str | None = statements.SETTING.scalar(connection, name=name)
    return value


def counter(connection: ReadConnection, name: str) -> int:
    """The last number given out."""
    return int(statements.COUNTER.scalar(connection, name=name))


def read_config(connection: ReadConnection) -> BaseConfig:
    """What the chunks and vectors of the base were made with."""
    rows = statements.SETTINGS.rows(connection, names=CONFIG)
    return BaseConfig.model_validate(dict(map(tuple, rows)))


def read_info(
    connection: ReadConnection,
    *,
    location: str,
    bytes_on_disk: int,
    indexes: Iterable[IndexState],
) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    collections = dict(map(tuple, statements.COLLECTION_SIZES.rows(connection)))
    by_language = dict(sorted(map(tuple, statements.BY_LANGUAGE.rows(connection))))
    config = read_config(connection)
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=statements.FINDABLE_CHUNKS.scalar(connection),
        collections=dict(sorted(collections.items())),
        languages=tuple(filter(None, by_language)),
        by_language=by_language,
        of_unknown_language=statements.OF_UNKNOWN_LANGUAGE.scalar(connection),
        **config.model_dump(exclude={"generation", "unfinished_copy_of"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )


def document_keys(
    connection: ReadConnection, documents: Iterable[Document]
) -> dict[tuple[str, str], int]:
    """The keys of those documents that are stored."""
    return keys_by_name(connection, [(item.collection, item.id) for item in documents])


def keys_by_name(
    connection: ReadConnection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """The keys of the documents with these collections and ids."""
    found: dict[tuple[str, str], int] = {}
    for some in name_batches(names):
        rows = statements.DOCUMENT_KEYS.rows(connection, **asked_names(some))
        found |= {(collection, name): key for collection, name, _, key in rows}
    return {name: found[name] for name in names if name in found}


def name_batches(names: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Names in as many as go into one query: fewer if they are of many collections."""
    batch: list[tuple[str, str]] = []
    collections: set[str] = set()
    for name in sorted(set(names)):
        collections.add(name[0])
        if len(batch) == AT_ONCE or len(collections) * (len(batch) + 1) > MOST_PAIRS:
            yield batch
            batch, collections = [], {name[0]}
        batch.append(name)
    if batch:
        yield batch


def asked_names(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The parameters of a query for documents by name.

    It also finds documents that have the id of one name and the collection of another.
    """
    wanted = set(names)
    collections = sorted({collection for collection, _ in wanted})
    return {"collections": collections, "ids": sorted({name for _, name in wanted})}


def in_batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in as many as go into one query."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]


def read_document(connection: ReadConnection, collection: str, document_id: str) -> Document | None:
    """A document, whole."""
    found = statements.DOCUMENT.records(connection, collection=collection, document_id=document_id)
    return document_of(found[0]) if found else None


def read_sources(
    connection: ReadConnection, names: Sequence[tuple[str, str]], *, searching: bool = False
) -> list[Document]:
    """The documents of these collections and ids, whole, in that order.

    One that can't be read is an error, unless it is for `searching`.
    """
    found: dict[tuple[str, str], Document] = {}
    for batch in name_batches(names):
        wanted = set(batch)
        records = [
            record
            for record in statements.DOCUMENTS.records(connection, **asked_names(batch))
            if (record["collection"], record["id"]) in wanted
        ]
        made = readable(document_of, records) if searching else map(document_of, records)
        found |= {(document.collection, document.id): document for document in made}
    return [found[name] for name in names if name in found]


def read_versions(
    connection: ReadConnection, collection: str, ids: Sequence[str]
) -> dict[str, Version]:
    """What is stored of each document, and what its chunks were made with."""
    found: dict[str, Version] = {}
    for some in in_batches(ids):
        rows = statements.VERSIONS.rows(connection, collection=collection, ids=some)
        for name, content_hash, language, digest, chunker_id, model_id in rows:
            made_by = (chunker_id, model_id) if chunker_id else None
            found[name] = Version(content_hash, language, digest, made_by)
    return found


def read_chunks(connection: ReadConnection, collection: str, document_id: str) -> list[Chunk]:
    """The chunks of a document, parents first."""
    name = {"collection": collection, "document_id": document_id}
    records = statements.CHUNKS_OF_DOCUMENT.records(connection, **name)
    return [chunk_of(record, **name) for record in records]


def read_parents(connection: ReadConnection, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    """The parents of `chunks`, by id."""
    wanted = sorted({(item.collection, item.document_id, item.parent_id or "") for item in chunks})
    found: dict[str, Chunk] = {}
    for some in in_batches(wanted):
        asked = asked_names((collection, name) for collection, name, _ in some)
        names = set(some)
        for record in statements.PARENTS.records(
            connection, **asked, parents=[parent for *_, parent in some]
        ):
            name = {field: record[field] for field in ("collection", "document_id")}
            if (*name.values(), record["id"]) in names:
                for parent in readable(partial(chunk_of, **name), [record]):
                    found[parent.id] = parent
    return found


def read_neighbours(
    connection: ReadConnection, chunks: Sequence[Chunk], *, near: int, across: int
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

    def made(record: Mapping[str, Any]) -> Chunk:
        collection, document_id = names[record["document_key"]]
        return chunk_of(record, collection=collection, document_id=document_id)

    found = [
        chunk
        for some in in_batches(_keys_at(connection, sorted(wanted)))
        for chunk in readable(made, statements.CHUNKS.records(connection, keys=some))
    ]
    return sorted(found, key=lambda c: (c.collection, c.document_id, c.level, c.ordinal))


def _ordinals_around(
    connection: ReadConnection, owner: int, chunk: Chunk, *, near: int, across: int
) -> set[int]:
    """The ordinals, present or not, of a chunk's neighbours."""
    ordinals = set(range(chunk.ordinal - near, chunk.ordinal + near + 1))
    if across and chunk.pages is not None:
        first, last = chunk.pages
        position = {"owner": owner, "level": chunk.level, "ordinal": chunk.ordinal}
        pages = {"first_page": first, "last_page": last}
        ((before, after),) = statements.ACROSS_PAGES.rows(connection, **position, **pages)
        if before is not None:
            ordinals |= set(range(before - across + 1, before + 1))
        if after is not None:
            ordinals |= set(range(after, after + across))
    return ordinals


def _keys_at(connection: ReadConnection, positions: Sequence[tuple[int, str, int]]) -> list[int]:
    """The keys of the chunks with these document keys, levels and ordinals."""
    found: list[int] = []
    for some in in_batches(positions):
        wanted = set(some)
        owners = sorted({owner for owner, _, _ in some})
        ordinals = sorted({ordinal for _, _, ordinal in some})
        rows = statements.CHUNKS_AT.rows(connection, owners=owners, ordinals=ordinals)
        found += [key for key, *position in rows if tuple(position) in wanted]
    return found


def read_stored(
    connection: ReadConnection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], StoredChunks]:
    """The chunks of documents that can be found, by collection and id."""
    found: dict[tuple[str, str], StoredChunks] = {}
    for some in name_batches(names):
        wanted = set(some)
        rows = statements.STORED_CHUNKS.rows(connection, **asked_names(some))
        for (collection, name, *made_by), chunks in groupby(rows, key=lambda row: tuple(row[:4])):
            if (collection, name) in wanted:
                keys = np.fromiter((chunk[4] for chunk in chunks), np.int64)
                found[collection, name] = StoredChunks(keys, *made_by)
    return found


def findable_keys(connection: ReadConnection) -> ChunkKeys:
    """Keys of all chunks that can be found, ascending."""
    return statements.FINDABLE_KEYS.keys(connection)


def read_vectors(connection: ReadConnection, keys: Sequence[int]) -> Vectors:
    """The vectors of `keys`, in that order; a base has those of one model.

    A chunk without a vector, or with a damaged one, has zeros.
    """
    found: list[Sequence[Any]] = []
    for some in in_batches(keys):
        found += statements.VECTORS.rows(connection, keys=some)
    sizes = Counter(len(vector) // 4 for _, vector in found if isinstance(vector, Buffer))
    dimension = sizes.most_common(1)[0][0] if sizes else 0
    known, vectors = unit_vectors(found, dimension)
    rows = np.zeros((len(keys), dimension), np.float32)
    row_of = {key: row for row, key in enumerate(keys)}
    rows[[row_of[key] for key in known.tolist()]] = vectors
    return rows


def unit_vectors(stored: Sequence[Sequence[Any]], dimension: int) -> tuple[ChunkKeys, Vectors]:
    """Keys and vectors of chunks as stored, without the damaged ones, which could outrank all."""
    fitting = [
        (key, vector)
        for key, vector in stored
        if isinstance(vector, Buffer) and len(vector) == 4 * dimension
    ]
    keys = np.array([key for key, _ in fitting], np.int64)
    rows = np.frombuffer(b"".join(vector for _, vector in fitting), "<f4").astype(np.float32)
    rows = rows.reshape(len(keys), dimension)
    whole = are_units(rows)
    if whole.sum() < len(stored):
        log.warning(
            "%d vectors are damaged; searches by meaning leave their chunks out, and `lagotto "
            "doctor` names the documents: remove them and add them again",
            len(stored) - whole.sum(),
        )
    return keys[whole], rows[whole]


def are_units(rows: Vectors) -> NDArray[np.bool_]:
    """Which of the rows are finite vectors of length 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.vecdot(rows, rows)
    units: NDArray[np.bool_] = np.abs(norms - 1) < UNIT_TOLERANCE
    return units


def read_passages(connection: ReadConnection, keys: Sequence[int]) -> dict[int, Passage]:
    """The chunks of `keys` with their texts and the outlines of their documents."""
    found: dict[int, Passage] = {}
    for some in in_batches(keys):
        records = statements.PASSAGES.records(connection, keys=list(map(int, some)))
        with paused_collector() if len(some) > MANY else nullcontext():
            found |= passages_of(records)
    return found


def passages_of(records: Iterable[Mapping[str, Any]]) -> dict[int, Passage]:
    """Passages by their keys, from records of `select_passages`; without those of no record."""
    documents: dict[int, Document | UnreadableRow] = {}

    def made(record: Mapping[str, Any]) -> Passage:
        owner = record["document_key"]
        if owner not in documents:
            documents[owner] = _outline(record)
        document = documents[owner]
        if isinstance(document, UnreadableRow):
            raise document
        chunk = chunk_of(record, collection=document.collection, document_id=document.id)
        return Passage(record["key"], chunk, document)

    return {passage.key: passage for passage in readable(made, records)}


def _outline(record: Mapping[str, Any]) -> Document | UnreadableRow:
    own = {
        name.removeprefix(OUTLINE): value
        for name, value in record.items()
        if name.startswith(OUTLINE)
    }
    try:
        return document_of(own)
    except UnreadableRow as exc:
        return exc


class UnreadableRow(ValueError):  # noqa: N818
    """A row that is no record; the message names its document."""

    def __init__(self, what: str, cause: Exception) -> None:
        reason = type(cause).__name__
        if isinstance(cause, ValidationError):
            problem = cause.errors(include_url=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        super().__init__(f"{what} can't be read ({reason}); remove it and add it again")


def readable(make: Callable[[Row], T], rows: Iterable[Row]) -> Iterator[T]:
    """What `make` makes of each row; a search leaves out what it can't be made of."""
    unreadable: list[UnreadableRow] = []
    for row in rows:
        try:
            yield make(row)
        except UnreadableRow as exc:
            unreadable.append(exc)
    if unreadable:
        log.warning("%d rows are left out; the first: %s", len(unreadable), unreadable[0])


def document_row(key: int, document: Document) -> dict[str, Any]:
    """The row of a document."""
    plain = document.model_dump(mode="json", exclude={*STRUCTURE, "created_at", "updated_at"})
    return {
        **plain,
        "key": key,
        "created_at": iso(document.created_at) if document.created_at else None,
        "updated_at": iso(document.updated_at) if document.updated_at else None,
        "fingerprint": fingerprint(document),
        "structure": {
            name: [item.model_dump(mode="json") for item in getattr(document, name)]
            for name in STRUCTURE
        },
    }


def document_of(row: Mapping[Any, Any]) -> Document:
    """The document of a row; one read without its text has an empty one, and no structure."""
    fields = dict(row)
    try:
        structure = fields.pop("structure", {})
        fields.pop("key")
        fields.pop("fingerprint")
        fields["language"] = _known_language(fields["language"])
        return Document(**{"text": "", **fields, **structure})
    except MALFORMED as exc:
        name = f"{fields.get('id')!r:.60} of the collection {fields.get('collection')!r:.60}"
        raise UnreadableRow(f"the document {name}", exc) from exc


def _known_language(tag: Any) -> str | None:
    """A stored tag; a text that is no tag is worth no more than none."""
    return tag if isinstance(tag, str) and LANGUAGE_TAG.fullmatch(tag) else None


def attribute_rows(key: int, document: Document) -> list[dict[str, Any]]:
    """A row for every value in the metadata that a filter can ask for."""
    return [
        {"document_key": key, "position": position, **value}
        for position, value in enumerate(_values(document.metadata, ()))
    ]


def _values(metadata: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name, value in metadata.items():
        here = (*path, name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            yield _value(here, None)
            yield from _values(value, here)
        elif isinstance(value, list):
            yield _value(here, None)
            yield from (_value(here, item, in_list=True) for item in value if kind_of(item))
        else:
            yield _value(here, value)


def _value(path: tuple[str, ...], value: object, *, in_list: bool = False) -> dict[str, Any]:
    """A row for a value; a list or dict as a whole has the kind `group`, it merely exists."""
    kind = kind_of(value)
    return {
        "field": field_name(path),
        "kind": kind or "group",
        "in_list": in_list,
        "text_value": value if kind == "text" else None,
        "number_value": value if kind in ("number", "boolean") else None,
    }


def chunk_row(key: int, document_key: int, set_key: int, chunk: Chunk) -> dict[str, Any]:
    """The row of a chunk; its text has a row of its own."""
    page_first, page_last = chunk.pages or (None, None)
    row_first, row_last = chunk.row_range or (None, None)
    item_first, item_last = chunk.item_range or (None, None)
    line_first, line_last = chunk.lines or (None, None)
    return {
        "key": key,
        "id": chunk.id,
        "document_key": document_key,
        "set_key": set_key,
        "level": chunk.level,
        "parent_id": chunk.parent_id,
        "ordinal": chunk.ordinal,
        "start": chunk.start,
        "end": chunk.end,
        "token_count": chunk.token_count,
        "page_first": page_first,
        "page_last": page_last,
        "heading_path": list(chunk.heading_path),
        "element": chunk.element,
        "row_first": row_first,
        "row_last": row_last,
        "item_first": item_first,
        "item_last": item_last,
        "line_first": line_first,
        "line_last": line_last,
        "sections": [_section_row(section) for section in chunk.sections] or None,
    }


def chunk_text_rows(chunks: Iterable[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """The rows with the texts of chunks, whose rows these are, of a document's text."""
    return [{"chunk_key": row["key"], "text": text[row["start"] : row["end"]]} for row in chunks]


def chunk_of(row: Mapping[str, Any], *, collection: str, document_id: str) -> Chunk:
    """The chunk of a row that also has its `text` and `chunker_id`."""
    try:
        return _chunk_of(row, collection, document_id)
    except MALFORMED as exc:
        what = f"a chunk of the document {document_id!r:.60} of the collection {collection!r:.60}"
        raise UnreadableRow(what, exc) from exc


def _chunk_of(row: Mapping[str, Any], collection: str, document_id: str) -> Chunk:
    return Chunk(
        id=row["id"],
        collection=collection,
        document_id=document_id,
        chunker_id=row["chunker_id"],
        level=row["level"],
        parent_id=row["parent_id"],
        ordinal=row["ordinal"],
        start=row["start"],
        end=row["end"],
        text=row["text"],
        token_count=row["token_count"],
        pages=_range(row["page_first"], row["page_last"]),
        heading_path=heading_path_of(row["heading_path"]),
        element=row["element"],
        row_range=_range(row["row_first"], row["row_last"]),
        item_range=_range(row["item_first"], row["item_last"]),
        lines=_range(row["line_first"], row["line_last"]),
        sections=tuple(map(_section, row["sections"] or ())),
    )


def heading_path_of(stored: Any) -> tuple[str, ...]:
    """A stored heading path; TypeError for anything else than a list of texts."""
    if not isinstance(stored, list | tuple):
        raise TypeError(f"a heading path is a {type(stored).__name__}")
    return tuple(map(storable, stored))


def _section_row(section: ChunkSection) -> list[Any]:
    start, heading_path, *ranges = section
    return [start, heading_path, *(ranges if any(ranges) else ())]


def _section(row: Sequence[Any]) -> ChunkSection:
    start, heading_path, *ranges = row
    return ChunkSection(start, tuple(heading_path), *(one and tuple(one) for one in ranges))


def _range(first: int | None, last: int | None) -> tuple[int, int] | None:
    return (first, last) if first is not None and last is not None else None
