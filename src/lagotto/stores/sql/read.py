"""Reading documents and chunks back; plain functions over a connection, as in `write`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Vectors
from lagotto.errors import StoreDamagedError
from lagotto.garbage_collection import paused_collector
from lagotto.indexes.base import ChunkKeys
from lagotto.stores.base import Passage, StoredChunks, Version
from lagotto.stores.sql.names import asked_names, in_batches, keys_by_name, name_batches
from lagotto.stores.sql.queries import NamedQuery, ReadConnection
from lagotto.stores.sql.rows import chunk_of, document_of

UNIT_TOLERANCE = 2e-3
"""Of a squared norm: what an index takes for a unit vector."""

OUTLINE = "document_"
"""What the fields of a passage's document begin with."""

_COUNTER = NamedQuery("COUNTER")
_FINDABLE_KEYS = NamedQuery("FINDABLE_KEYS")
_DOCUMENT = NamedQuery("DOCUMENT")
_DOCUMENTS = NamedQuery("DOCUMENTS")
_VERSIONS = NamedQuery("VERSIONS")
_CHUNKS = NamedQuery("CHUNKS")
_CHUNKS_OF_DOCUMENT = NamedQuery("CHUNKS_OF_DOCUMENT")
_CHUNKS_AT = NamedQuery("CHUNKS_AT")
_ACROSS_PAGES = NamedQuery("ACROSS_PAGES")
_PARENTS = NamedQuery("PARENTS")
_STORED_CHUNKS = NamedQuery("STORED_CHUNKS")
_VECTORS = NamedQuery("VECTORS")
_PASSAGES = NamedQuery("PASSAGES")


def counter(connection: ReadConnection, name: str) -> int:
    """The last number given out."""
    return int(_COUNTER.scalar(connection, name=name))


def findable_keys(connection: ReadConnection) -> ChunkKeys:
    """Keys of all chunks that can be found, ascending."""
    return np.array(_FINDABLE_KEYS.column(connection), np.int64)


def read_document(connection: ReadConnection, collection: str, document_id: str) -> Document | None:
    """A document, whole."""
    found = _DOCUMENT.records(connection, collection=collection, document_id=document_id)
    return document_of(found[0]) if found else None


def read_sources(connection: ReadConnection, names: Sequence[tuple[str, str]]) -> list[Document]:
    """The documents of these collections and ids, whole, in that order."""
    found: dict[tuple[str, str], Document] = {}
    for batch in name_batches(names):
        wanted = set(batch)
        for record in _DOCUMENTS.records(connection, **asked_names(batch)):
            name = (record["collection"], record["id"])
            if name in wanted:
                found[name] = document_of(record)
    return [found[name] for name in names if name in found]


def read_versions(
    connection: ReadConnection, collection: str, ids: Sequence[str]
) -> dict[str, Version]:
    """What is stored of each document, and what its chunks were made with."""
    found: dict[str, Version] = {}
    for some in in_batches(ids):
        rows = _VERSIONS.rows(connection, collection=collection, ids=some)
        for name, content_hash, language, fingerprint, chunker_id, model_id in rows:
            made_by = (chunker_id, model_id) if chunker_id else None
            found[name] = Version(content_hash, language, fingerprint, made_by)
    return found


def read_chunks(connection: ReadConnection, collection: str, document_id: str) -> list[Chunk]:
    """The chunks of a document, parents first."""
    name = {"collection": collection, "document_id": document_id}
    records = _CHUNKS_OF_DOCUMENT.records(connection, **name)
    return [chunk_of(record, **name) for record in records]


def read_parents(connection: ReadConnection, chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    """The parents of `chunks`, by id."""
    wanted = sorted({(item.collection, item.document_id, item.parent_id or "") for item in chunks})
    found: dict[str, Chunk] = {}
    for some in in_batches(wanted):
        asked = asked_names((collection, name) for collection, name, _ in some)
        names = set(some)
        for record in _PARENTS.records(
            connection, **asked, parents=[parent for *_, parent in some]
        ):
            name = {field: record[field] for field in ("collection", "document_id")}
            if (*name.values(), record["id"]) in names:
                found[record["id"]] = chunk_of(record, **name)
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
    found = [
        chunk_of(record, collection=names[key][0], document_id=names[key][1])
        for some in in_batches(_keys_at(connection, sorted(wanted)))
        for record in _CHUNKS.records(connection, keys=some)
        for key in (record["document_key"],)
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
        ((before, after),) = _ACROSS_PAGES.rows(connection, **position, **pages)
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
        rows = _CHUNKS_AT.rows(connection, owners=owners, ordinals=ordinals)
        found += [key for key, *position in rows if tuple(position) in wanted]
    return found


def read_stored(
    connection: ReadConnection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], StoredChunks]:
    """The chunks of documents that can be found, by collection and id."""
    found: dict[tuple[str, str], StoredChunks] = {}
    for some in name_batches(names):
        wanted = set(some)
        rows = _STORED_CHUNKS.rows(connection, **asked_names(some))
        for (collection, name, *made_by), chunks in groupby(rows, key=lambda row: tuple(row[:4])):
            if (collection, name) in wanted:
                keys = np.fromiter((chunk[4] for chunk in chunks), np.int64)
                found[collection, name] = StoredChunks(keys, *made_by)
    return found


def read_vectors(connection: ReadConnection, keys: Sequence[int]) -> Vectors:
    """The vectors of `keys`, in that order; a base has those of one model."""
    found: dict[int, bytes] = {}
    for some in in_batches(keys):
        found |= dict(map(tuple, _VECTORS.rows(connection, keys=some)))
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


def read_passages(connection: ReadConnection, keys: Sequence[int]) -> dict[int, Passage]:
    """The chunks of `keys` with their texts and the outlines of their documents."""
    found: dict[int, Passage] = {}
    for some in in_batches(keys):
        records = _PASSAGES.records(connection, keys=list(map(int, some)))
        with paused_collector():
            found |= passages_of(records)
    return found


def passages_of(records: Iterable[Mapping[str, Any]]) -> dict[int, Passage]:
    """Passages by their keys, from records of `select_passages`."""
    found: dict[int, Passage] = {}
    documents: dict[int, Document] = {}
    for record in records:
        owner = record["document_key"]
        if owner not in documents:
            documents[owner] = document_of(
                {
                    name.removeprefix(OUTLINE): value
                    for name, value in record.items()
                    if name.startswith(OUTLINE)
                }
            )
        document = documents[owner]
        chunk = chunk_of(record, collection=document.collection, document_id=document.id)
        found[record["key"]] = Passage(record["key"], chunk, document)
    return found
