"""Sets of cached chunks to rows and back; a row that is not as it was written gives nothing.

The text of a chunk is cut from its document, its id and ordinal are worked out again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lagotto.documents import Chunk, Document, Span, chunk_id
from lagotto.stores.base import CachedChunks, CacheKey

FORMAT = 1
"""Raised whenever rows are written differently; those of another format fail their checksum."""

KEPT = (
    "level",
    "start",
    "end",
    "token_count",
    "pages",
    "heading_path",
    "element",
    "row_range",
    "item_range",
)
"""The fields of a chunk that are kept, in this order, and behind them the place of its parent."""


def cache_row(
    document_key: int,
    key: CacheKey,
    entry: CachedChunks,
    *,
    created_at: str,
    expires_at: str | None,
) -> dict[str, Any]:
    """The row of a set."""
    places = {chunk.id: place for place, chunk in enumerate(entry.chunks)}
    spans = [
        [*(getattr(chunk, field) for field in KEPT), places.get(chunk.parent_id or "")]
        for chunk in entry.chunks
    ]
    contents = {"dimension": entry.vectors.shape[1], "spans": spans}
    row = {
        "content_hash": key.content_hash,
        "chunker_id": key.chunker_id,
        "model_id": key.model_id,
        "chunks": json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode(),
        "vectors": entry.vectors.astype("<f4").tobytes(),
        "created_at": created_at,
        "expires_at": expires_at,
    }
    return {**row, "document_key": document_key, "checksum": _checksum(key, row)}


def cached_chunks(key: CacheKey, row: Mapping[Any, Any]) -> CachedChunks | None:
    """The set of a row that also has its document's `text`; None unless it is as it was saved."""
    if not isinstance(row["chunks"], bytes) or not isinstance(row["vectors"], bytes):
        return None
    if row["checksum"] != _checksum(key, row):
        return None
    contents = json.loads(row["chunks"])
    text, spans = row["text"], contents["spans"]
    if not all(0 <= start < end <= len(text) for _, start, end, *_ in spans):
        return None
    chunks = _chunks(key, text, spans)
    shape = (sum(chunk.level != "parent" for chunk in chunks), contents["dimension"])
    vectors = np.frombuffer(row["vectors"], "<f4").astype(np.float32)
    if vectors.size != shape[0] * shape[1]:
        return None
    return CachedChunks(chunks, vectors.reshape(shape))


def _checksum(key: CacheKey, row: Mapping[Any, Any]) -> str:
    total = hashlib.blake2b(digest_size=16)
    sizes = (len(row["chunks"]), len(row["vectors"]))
    total.update(json.dumps([FORMAT, *key, row["created_at"], row["expires_at"], *sizes]).encode())
    total.update(row["chunks"])
    total.update(row["vectors"])
    return total.hexdigest()


def _chunks(key: CacheKey, text: str, spans: Sequence[Sequence[Any]]) -> list[Chunk]:
    document = Document(
        collection=key.collection, id=key.document_id, content_hash=key.content_hash, text=text
    )
    ordinals: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for *values, parent in spans:
        fields = dict(zip(KEPT, values, strict=True))
        span = Span(fields["start"], fields["end"])
        chunk = Chunk(
            **fields,
            id=chunk_id(document, key.chunker_id, fields["level"], span),
            collection=key.collection,
            document_id=key.document_id,
            chunker_id=key.chunker_id,
            parent_id=None if parent is None else chunks[parent].id,
            ordinal=ordinals[fields["level"]],
            text=text[span.start : span.end],
        )
        ordinals[chunk.level] += 1
        chunks.append(chunk)
    return chunks
