"""Passages that are contained in others, found without comparing each with each.

Of every passage, one run of characters is its anchor: the one with the least hash. A passage that
contains another contains its anchor, so the anchors are looked for in all passages, and only what
is around one that occurs is compared. Two reads of the base, with 70 MB for 100,000 passages in
between; texts are not kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from shlex import quote
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import for_each, with_checkpoints
from lagotto._internal.display import counted
from lagotto.documents import DEFAULT_COLLECTION, Chunk, DocumentRef, Record
from lagotto.filters import And
from lagotto.indexes.base import Finding
from lagotto.stores.base import Store, View

SHORTEST = 32
"""Characters, a power of two; what is shorter, such as a heading, says nothing when it repeats."""

BATCH = 500
"""Documents that are read at once."""

LISTED = 5
"""Offsets that a finding names."""

_FACTOR = 0x9E3779B97F4A7C15
"""An odd number; hashes are polynomials of it, modulo 2**64."""


class PassageSpan(NamedTuple):
    """A passage, by its document and offsets."""

    collection: str
    document_id: str
    start: int
    end: int


class Duplicate(Record):
    """A passage whose text, apart from white space, is that of another or a part of it."""

    collection: str
    document_id: str
    start: int
    end: int
    in_collection: str
    in_document_id: str
    in_start: int
    in_end: int
    is_whole: bool


class _Anchored(NamedTuple):
    """A passage with the offset of its anchor and the length and digest of its text."""

    passage: PassageSpan
    offset: int
    length: int
    digest: bytes


async def find_duplicates(store: Store) -> list[Duplicate]:
    """The passages of a base that are contained in others, in the order of documents.

    Of passages with the same text, all but the first are listed, each with the first; another
    passage is listed with one that contains it.
    """
    texts = _Texts()
    async with store.view(And()) as view:
        names = [document.ref async for document in store.documents(And())]
        async for chunks in _batches(view, names):
            await for_each(texts.add, chunks)
        async for chunks in _batches(view, names):
            await for_each(texts.compare, chunks)
    return texts.duplicates()


async def _batches(view: View, names: Sequence[DocumentRef]) -> AsyncIterator[list[Chunk]]:
    for start in range(0, len(names), BATCH):
        for stored in (await view.stored(names[start : start + BATCH])).values():
            for first in range(0, len(stored.keys), BATCH):
                passages = await view.passages(stored.keys[first : first + BATCH])
                yield [passage.chunk for passage in passages]


class _Texts:
    """What is known of the texts of all passages."""

    def __init__(self) -> None:
        self._first: dict[bytes, PassageSpan] = {}
        self._by_anchor: dict[int, list[_Anchored]] = defaultdict(list)
        self._anchors: NDArray[np.uint64] | None = None
        self._duplicates: dict[PassageSpan, tuple[PassageSpan, bool]] = {}

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Note passages; those with a text that another has are found."""
        for chunk, text in _long_enough(chunks):
            passage, digest = _span(chunk), _digest(text)
            first = self._first.setdefault(digest, passage)
            if first != passage:
                self._duplicates[passage] = (first, True)
                continue
            hashes = _hashes(text)
            offset = int(hashes.argmin())
            anchored = _Anchored(passage, offset, len(text), digest)
            self._by_anchor[int(hashes[offset])].append(anchored)

    def compare(self, chunks: Sequence[Chunk]) -> None:
        """Find what these passages contain, once all are noted."""
        if self._anchors is None:
            self._anchors = np.array(sorted(self._by_anchor), np.uint64)
        for chunk, text in _long_enough(chunks):
            passage, hashes = _span(chunk), _hashes(text)
            at = np.searchsorted(self._anchors, hashes)
            is_anchor = self._anchors[np.minimum(at, len(self._anchors) - 1)] == hashes
            for position in np.flatnonzero(is_anchor).tolist():
                for other in self._by_anchor[int(hashes[position])]:
                    start = position - other.offset
                    if other.passage == passage or other.passage in self._duplicates or start < 0:
                        continue
                    part = text[start : start + other.length]
                    if len(part) == other.length < len(text) and _digest(part) == other.digest:
                        self._duplicates[other.passage] = (passage, False)

    def duplicates(self) -> list[Duplicate]:
        duplicates = []
        for passage, (other, is_whole) in sorted(self._duplicates.items()):
            container = {f"in_{name}": value for name, value in other._asdict().items()}
            duplicates.append(Duplicate(**passage._asdict(), **container, is_whole=is_whole))
        return duplicates


def _span(chunk: Chunk) -> PassageSpan:
    return PassageSpan(*chunk.document_ref, chunk.start, chunk.end)


def _long_enough(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, NDArray[np.uint32]]]:
    """The passages to compare, with their characters; white space is one blank."""
    for chunk in with_checkpoints(chunks):
        text = " ".join(chunk.text.split())
        if len(text) >= SHORTEST:
            yield chunk, np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _digest(text: NDArray[np.uint32]) -> bytes:
    return blake2b(text.tobytes(), digest_size=16).digest()


def _hashes(text: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The hash of each run of SHORTEST characters, from those of runs half as long."""
    hashes, width, factor = text.astype(np.uint64), 1, _FACTOR
    while width < SHORTEST:
        hashes = hashes[:-width] * np.uint64(factor) + hashes[width:]
        width, factor = 2 * width, factor * factor % 2**64
    return hashes


def duplicate_findings(duplicates: Sequence[Duplicate]) -> list[Finding]:
    """A line for each pair of documents, with what to do."""
    lines = []
    for (own, other), group in groupby(sorted(duplicates, key=_documents), key=_documents):
        passages = list(group)
        spans = [f"{one.start}-{one.end}" for one in passages[:LISTED]]
        spans += [f"and {len(passages) - LISTED} more"] if len(passages) > LISTED else []
        count = counted(len(passages), "passage")
        where = "elsewhere in it" if own == other else f"in {other.collection}/{other.id}"
        what = f"{count} of {own.collection}/{own.id} also {where}: {', '.join(spans)}"
        inside = f" --collection {quote(own.collection)}" * (own.collection != DEFAULT_COLLECTION)
        advice = f"if it is a copy, `lagotto remove {quote(own.id)}{inside}`"
        if own == other:
            advice = "the document repeats itself, which takes room in packs; shorten it if you can"
        lines.append(Finding(level="note", what=what, advice=advice))
    if lines:
        return lines
    what = f"no passage of {SHORTEST} characters or more is contained in another"
    return [Finding(level="ok", what=what)]


def _documents(duplicate: Duplicate) -> tuple[DocumentRef, DocumentRef]:
    own = DocumentRef(duplicate.collection, duplicate.document_id)
    return own, DocumentRef(duplicate.in_collection, duplicate.in_document_id)
