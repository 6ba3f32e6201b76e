"""Postings: from terms to the rows of a segment, and back.

A posting is eight bytes: the key of a chunk, the frequency of the term in it, the length of the
chunk in terms. The lists of a query's terms are read whole and scored by NumPy: for five words in
100,000 chunks that is about 80,000 postings, 640 kB.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import in_context
from lagotto.indexes.base import ChunkKeys
from lagotto.indexes.filter_keys import are_among
from lagotto.stores.base import Entry
from lagotto.stores.languages import LanguageCounts, main_language
from lagotto.terms import index_terms

RECORD = np.dtype([("key", "<u4"), ("count", "<u2"), ("length", "<u2")])
LARGEST = 2**16 - 1

MOST_PLACES = 256
LAST_PLACE = 2**14 - 1
"""The limits of a tsvector: positions per term, and the last position."""

Postings = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The terms of a findable chunk: their number, and the tsvector of their positions."""

    length: int
    places: bytes


@dataclass(frozen=True, slots=True)
class PostingSegment:
    """The postings of some chunks, which are numbered from 0 until they have keys.

    `texts` are the indexed texts with their languages.
    """

    texts: Sequence[tuple[str, str | None]]
    chunks: Sequence[ChunkTerms]
    terms: Sequence[str]
    bounds: NDArray[np.int64]
    postings: Postings

    def rows(self, keys: ChunkKeys) -> Iterator[tuple[str, bytes]]:
        """Each term with its postings, for chunks with these keys."""
        postings = self.postings.copy()
        postings["key"] = keys[postings["key"]]
        for term, (start, stop) in zip(self.terms, pairwise(self.bounds.tolist()), strict=True):
            yield term, postings[start:stop].tobytes()


def make_segment(
    texts: Sequence[tuple[str, str | None]], languages: Sequence[str | None]
) -> PostingSegment:
    """The segment of chunks, given by their texts with their own languages.

    `languages` are those to index them in: the main one of a collection stands in for unknown ones.
    """
    numbers: dict[str, int] = {}
    found: list[tuple[int, int, int, int]] = []
    chunks = []
    for number, ((text, _), language) in enumerate(zip(texts, languages, strict=True)):
        terms = index_terms(text, language)
        length = min(len(terms), LARGEST)
        chunks.append(ChunkTerms(len(terms), tsvector(terms)))
        for term, count in Counter(terms).items():
            place = numbers.setdefault(term, len(numbers))
            found.append((place, number, min(count, LARGEST), length))
    table = np.array(found, np.int64).reshape(-1, 4)
    table = table[np.argsort(table[:, 0], kind="stable")]
    postings = np.empty(len(table), RECORD)
    for column, name in enumerate(("key", "count", "length"), 1):
        postings[name] = table[:, column]
    bounds = np.searchsorted(table[:, 0], np.arange(len(numbers) + 1))
    return PostingSegment(texts, chunks, list(numbers), bounds, postings)


def entry_segment(entries: Sequence[Entry], counts: LanguageCounts) -> PostingSegment:
    """The segment of the findable chunks, in the order of their keys."""
    findable = [
        (entry.document, chunk)
        for entry in entries
        for chunk in entry.chunks
        if chunk.level != "parent"
    ]
    return make_segment(
        [
            (
                in_context(document.title, chunk.text, headings=chunk.heading_path),
                document.language,
            )
            for document, chunk in findable
        ],
        [
            document.language or main_language(counts, document.collection)
            for document, _ in findable
        ],
    )


def tsvector(terms: Sequence[str]) -> bytes:
    """The terms with their positions, in the binary format of a tsvector."""
    places: dict[str, list[int]] = {}
    for place, term in enumerate(terms[:LAST_PLACE], 1):
        places.setdefault(term, []).append(place)
    lexemes = [_lexeme(term, some[:MOST_PLACES]) for term, some in places.items()]
    return b"".join([struct.pack(">i", len(lexemes)), *lexemes])


def _lexeme(term: str, places: Sequence[int]) -> bytes:
    return term.encode() + struct.pack(f">xH{len(places)}H", len(places), *places)


def phrase(terms: Sequence[str]) -> str:
    """A tsquery for adjacent terms."""
    return " <-> ".join(map(quoted, terms))


def quoted(term: str) -> str:
    """A term, quoted for a tsquery."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def living(records: bytes, gone: ChunkKeys) -> Postings:
    """The postings in one or several joined rows, without those of removed chunks."""
    postings = np.frombuffer(records, RECORD)
    if not len(gone):
        return postings
    return postings[~are_among(postings["key"], gone)]


def joined(rows: Sequence[tuple[str, bytes]]) -> Mapping[str, bytes]:
    """The rows of each term, joined."""
    found: dict[str, list[bytes]] = {}
    for term, records in rows:
        found.setdefault(term, []).append(records)
    return {term: b"".join(some) for term, some in found.items()}
