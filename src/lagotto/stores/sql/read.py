"""Reading a base back: settings, documents and chunks; plain functions over a connection."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from lagotto._internal.memory import paused_collector
from lagotto.documents import LANGUAGE_TAG, Chunk, ChunkSection, Document, Vectors, iso, storable
from lagotto.filters import field_name, kind_of
from lagotto.indexes.base import ChunkKeys, IndexState
from lagotto.stores import base
from lagotto.stores.base import BaseConfig, Passage
from lagotto.stores.sql import statements
from lagotto.stores.sql.statements import OUTLINE_NAMES, ReadConnection
from lagotto.terms.synonyms import Synonyms

log = logging.getLogger(__name__)

Row = TypeVar("Row")

T = TypeVar("T")

NO_FIELDS = {"key", "fingerprint", "structure"}
"""The columns of a document that are no fields of it."""

OUTLINE_COLUMNS = {
    name: f"document_{name}" for name in OUTLINE_NAMES.split() if name not in NO_FIELDS
}
"""The columns of the fields of a passage's document."""

CONFIG = tuple(BaseConfig.model_fields)
"""The settings that say what a base was made with."""

MANY = 100
"""Passages for which it is worth to pause the garbage collector."""

Name = tuple[str, str]
"""The collection and the id of a document."""

AT_ONCE = 500
"""Passages that are read at once."""

UNIT_TOLERANCE = 2e-3
"""Of a squared norm: what an index takes for a unit vector."""

Buffer = bytes | memoryview  # of the drivers

STRUCTURE = ("pages", "headings", "blocks")

MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What making a record of the wrong values raises."""


ALL = 2**62


def keyed_value(row: Sequence[Any]) -> base.KeyedValue:
    name, version, value = row  # psycopg has decoded JSON itself
    return base.KeyedValue(name, version, json.loads(value) if isinstance(value, str) else value)


def read_synonyms(connection: ReadConnection) -> dict[str, Synonyms]:
    """The synonyms of each collection."""
    rows = statements.KEYED_VALUES.rows(connection, kind=base.SYNONYMS, after="", most=ALL)
    return base.synonyms_of(map(keyed_value, rows))


def setting(connection: ReadConnection, name: str) -> str | None:
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
) -> base.StoreInfo:
    """How much is in the base, and what it was made with."""
    collections = dict(map(tuple, statements.COLLECTION_SIZES.rows(connection)))
    by_language = dict(map(tuple, statements.BY_LANGUAGE.rows(connection)))
    unknown = by_language.pop(None, 0)
    config = read_config(connection)
    return base.StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=statements.FINDABLE_CHUNKS.scalar(connection),
        collections=dict(sorted(collections.items())),
        languages=tuple(sorted(filter(None, by_language))),
        by_language=dict(sorted(by_language.items())),
        of_unknown_language=unknown,
        **config.model_dump(exclude={"generation", "unfinished_copy_of"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )


def document_keys(connection: ReadConnection, documents: Iterable[Document]) -> dict[Name, int]:
    return keys_by_name(connection, (document.ref for document in documents))


def keys_by_name(connection: ReadConnection, names: Iterable[Name]) -> dict[Name, int]:
    rows = statements.DOCUMENT_KEYS.rows(connection, refs=references(names))
    return {(collection, name): key for collection, name, _, key in rows}


def references(names: Iterable[Name]) -> str:
    """Names as a parameter of statements, each once."""
    return json.dumps(sorted(set(names)))


def read_document(connection: ReadConnection, collection: str, document_id: str) -> Document | None:
    rows = statements.DOCUMENT.records(connection, collection=collection, document_id=document_id)
    return document_of(rows[0]) if rows else None


def read_sources(
    connection: ReadConnection, names: Sequence[Name], *, searching: bool = False
) -> list[Document]:
    """The documents of these collections and ids, whole, in that order.

    One that can't be read is an error, unless it is for `searching`.
    """
    records = statements.DOCUMENTS.records(connection, refs=references(names))
    documents = readable(document_of, records) if searching else map(document_of, records)
    by_ref = {document.ref: document for document in documents}
    return [by_ref[name] for name in names if name in by_ref]


def read_versions(
    connection: ReadConnection, collection: str, ids: Sequence[str]
) -> dict[str, base.Version]:
    """What is stored of each document, and what its chunks were made with."""
    rows = statements.VERSIONS.rows(connection, collection=collection, ids=list(ids))
    return {
        name: base.Version(content_hash, language, digest, (chunker, model) if chunker else None)
        for name, content_hash, language, digest, chunker, model in rows
    }


def read_parents(connection: ReadConnection, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    wanted = {(item.collection, item.document_id, item.parent_id or "") for item in chunks}
    refs, parents = references(name[:2] for name in wanted), [parent for *_, parent in wanted]
    records = [
        record
        for record in statements.PARENTS.records(connection, refs=refs, parents=parents)
        if (record["collection"], record["document_id"], record["id"]) in wanted
    ]
    return {parent.id: parent for parent in readable(chunk_of, records)}


def read_neighbours(
    connection: ReadConnection, chunks: Sequence[Chunk], *, near: int, across: int
) -> list[Chunk]:
    """The chunks of the same document and level around each of `chunks`, in document order."""
    owners = keys_by_name(connection, [(item.collection, item.document_id) for item in chunks])
    wanted: set[tuple[int, str, int]] = set()
    for chunk in chunks:
        owner = owners.get((chunk.collection, chunk.document_id))
        if owner is not None:
            ordinals = _ordinals_around(connection, owner, chunk, near=near, across=across)
            wanted |= {(owner, chunk.level, ordinal) for ordinal in ordinals}
    records = statements.CHUNKS.records(connection, keys=_keys_at(connection, wanted))
    neighbours = readable(chunk_of, records)
    return sorted(neighbours, key=lambda c: (c.collection, c.document_id, c.level, c.ordinal))


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


def _keys_at(connection: ReadConnection, positions: set[tuple[int, str, int]]) -> list[int]:
    owners = sorted({owner for owner, _, _ in positions})
    ordinals = sorted({ordinal for _, _, ordinal in positions})
    rows = statements.CHUNKS_AT.rows(connection, owners=owners, ordinals=ordinals)
    return [key for key, *position in rows if tuple(position) in positions]


def read_stored(connection: ReadConnection, names: Sequence[Name]) -> dict[Name, base.StoredChunks]:
    """The chunks of documents that can be found, by collection and id."""
    rows = statements.STORED_CHUNKS.rows(connection, refs=references(names))
    return {
        (collection, name): base.StoredChunks(
            np.fromiter((row[4] for row in chunks), np.int64), *made_by
        )
        for (collection, name, *made_by), chunks in groupby(rows, key=lambda row: tuple(row[:4]))
    }


def read_vectors(connection: ReadConnection, keys: Sequence[int]) -> Vectors:
    """The vectors of `keys`, in that order; a base has those of one model.

    A chunk without a vector, or with a damaged one, has zeros.
    """
    records = statements.VECTORS.rows(connection, keys=list(keys))
    sizes = Counter(len(vector) // 4 for _, vector in records if isinstance(vector, Buffer))
    dimension = sizes.most_common(1)[0][0] if sizes else 0
    known, vectors = unit_vectors(records, dimension)
    rows = np.zeros((len(keys), dimension), np.float32)
    row_of = {key: row for row, key in enumerate(keys)}
    rows[[row_of[key] for key in known.tolist()]] = vectors
    return rows


def unit_vectors(
    stored: Sequence[Sequence[Any]], dimension: int, *, warn: bool = True
) -> tuple[ChunkKeys, Vectors]:
    """Keys and vectors of chunks as stored, without the damaged ones, which could outrank all."""
    fitting = [
        (key, vector)
        for key, vector in stored
        if isinstance(vector, Buffer) and len(vector) == 4 * dimension
    ]
    keys = np.array([key for key, _ in fitting], np.int64)
    rows = np.frombuffer(b"".join(vector for _, vector in fitting), "<f4").astype(np.float32)
    rows = rows.reshape(len(keys), dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.abs(np.vecdot(rows, rows) - 1) < UNIT_TOLERANCE
    if warn and whole.sum() < len(stored):
        log.warning(
            "%d vectors are damaged; searches by meaning leave their chunks out, and `lagotto "
            "doctor` names the documents: remove them and add them again",
            len(stored) - whole.sum(),
        )
    return keys[whole], rows[whole]


def read_passages(connection: ReadConnection, keys: Sequence[int]) -> dict[int, Passage]:
    """The chunks of `keys` with their texts and the outlines of their documents."""
    passages: dict[int, Passage] = {}
    for start in range(0, len(keys), AT_ONCE):
        records = statements.PASSAGES.records(connection, keys=keys[start : start + AT_ONCE])
        with paused_collector() if len(records) > MANY else nullcontext():
            passages |= passages_of(records)
    return passages


def passages_of(records: Iterable[Mapping[str, Any]]) -> dict[int, Passage]:
    """Passages by their keys, from records of SELECT_PASSAGES; without those that can't be read."""
    documents: dict[int, Document] = {}

    def passage_of(record: Mapping[str, Any]) -> Passage:
        owner = record["document_key"]
        if owner not in documents:
            documents[owner] = document_of(record, OUTLINE_COLUMNS)
        return Passage(record["key"], chunk_of(record), documents[owner])

    return {passage.key: passage for passage in readable(passage_of, records)}


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
    plain = document.model_dump(mode="json", exclude={*STRUCTURE, "created_at", "updated_at"})
    return {
        **plain,
        "key": key,
        "created_at": iso(document.created_at) if document.created_at else None,
        "updated_at": iso(document.updated_at) if document.updated_at else None,
        "fingerprint": base.fingerprint(document),
        "structure": {
            name: [item.model_dump(mode="json") for item in items]
            for name in STRUCTURE
            if (items := getattr(document, name))
        },
    }


def document_of(row: Mapping[str, Any], columns: Mapping[str, str] | None = None) -> Document:
    """The document of a row; one read without its text has an empty one, and no structure.

    `columns` are those of its fields, where they have other names.
    """
    if columns is None:
        fields = {name: value for name, value in row.items() if name not in NO_FIELDS}
    else:
        fields = {name: row[column] for name, column in columns.items()}
    try:
        tag = fields["language"]  # a text that is no tag is worth no more than none
        if not (isinstance(tag, str) and LANGUAGE_TAG.fullmatch(tag)):
            fields["language"] = None
        return Document(**{"text": "", **fields, **row.get("structure", {})})
    except MALFORMED as exc:
        name = f"{fields.get('id')!r:.60} of the collection {fields.get('collection')!r:.60}"
        raise UnreadableRow(f"the document {name}", exc) from exc


def attribute_rows(key: int, document: Document) -> list[dict[str, Any]]:
    """A row for every value in the metadata that a filter can ask for."""
    return [
        {"document_key": key, "position": position, **value}
        for position, value in enumerate(_values(document.metadata, ()))
    ]


def _values(metadata: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for name, value in metadata.items():
        here = (*path, name)
        if isinstance(value, Mapping):
            yield _value(here, None)
            yield from _values(value, here)
        elif isinstance(value, list):
            yield _value(here, None)
            yield from (_value(here, item, in_list=True) for item in value if kind_of(item))
        elif value is not None:
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


PLAIN = ("id", "level", "parent_id", "ordinal", "start", "end", "token_count", "element")
RANGES = {
    "pages": ("page_first", "page_last"),
    "row_range": ("row_first", "row_last"),
    "item_range": ("item_first", "item_last"),
    "lines": ("line_first", "line_last"),
}
"""The fields of a chunk that are columns as they are, and those that are two columns."""


def chunk_row(key: int, document_key: int, set_key: int, chunk: Chunk) -> dict[str, Any]:
    """The row of a chunk; its text has a row of its own."""
    row = {name: getattr(chunk, name) for name in PLAIN}
    for name, (first, last) in RANGES.items():
        row[first], row[last] = getattr(chunk, name) or (None, None)
    return {
        **row,
        "key": key,
        "document_key": document_key,
        "set_key": set_key,
        "heading_path": list(chunk.heading_path),
        "sections": [_section_row(section) for section in chunk.sections] or None,
        "context": chunk.context or None,
    }


def chunk_of(row: Mapping[str, Any]) -> Chunk:
    """The chunk of a row that also has its `text`, its `chunker_id` and its document's name.

    Field by field: a loop over their names takes twice as long, for each of 100 passages a search.
    """
    try:
        return Chunk(
            id=row["id"],
            collection=row["collection"],
            document_id=row["document_id"],
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
            context=row["context"] or "",
        )
    except MALFORMED as exc:
        name = f"{row['document_id']!r:.60} of the collection {row['collection']!r:.60}"
        raise UnreadableRow(f"a chunk of the document {name}", exc) from exc


def _range(first: int | None, last: int | None) -> tuple[int, int] | None:
    return (first, last) if first is not None and last is not None else None


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
