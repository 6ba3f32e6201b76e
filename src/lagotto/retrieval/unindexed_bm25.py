"""BM25 for chunks that are in no index: their words are counted when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, in_context
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.text_query import Match, TextQuery, holds
from lagotto.terms import analyze

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TermCounts:
    """What one chunk holds of a query: how often each of its terms, and whether it may be found.

    `length` is how many terms the chunk has in all, `matches` whether the query's condition holds.
    """

    counts: tuple[int, ...]
    length: int
    matches: bool
    excluded: bool


def query_texts(query: TextQuery) -> list[str]:
    """The distinct terms of a query, in the order of `TermCounts.counts`."""
    return list(dict.fromkeys(term.text for word in query.words for term in word))


def count_terms(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    query: TextQuery,
    excluded: Match | None,
    headers: bool,
) -> list[TermCounts]:
    """What each chunk holds, read under its title and headings as an index would."""
    wanted = query_texts(query)
    found = []
    for chunk in chunks:
        text = chunk.text
        if headers:
            text = in_context(document.title, text, headings=chunk.heading_path)
        terms = analyze(text, document.language)
        counted = Counter(filter(set(wanted).__contains__, terms))
        found.append(
            TermCounts(
                counts=tuple(counted[term] for term in wanted),
                length=len(terms),
                matches=query.where is None or holds(query.where, terms),
                excluded=excluded is not None and holds(excluded, terms),
            )
        )
    return found


def bm25(words: Sequence[TermCounts], *, query: TextQuery, idfs: Scores) -> Scores:
    """The score of each chunk; `idfs` are those of `query_texts` in the store.

    Where the store holds whole documents, a term that many of them hold may still be rare among
    these chunks, and tells as much as that. Lengths are compared with these chunks' own. A word
    counts as its best alternative does; a chunk that the condition doesn't hold for scores 0.
    """
    texts = query_texts(query)
    total = np.zeros(len(words))
    if not words or not texts:
        return total
    counts = np.array([item.counts for item in words], np.float64)
    lengths = np.array([item.length for item in words], np.float64)
    here = [idf(int(having), count=len(words)) for having in np.count_nonzero(counts, axis=0)]
    scores = term_weight(
        counts, lengths[:, None], mean=lengths.mean() or 1.0, idf=np.maximum(idfs, here)
    )
    for word in query.words:
        columns = [scores[:, texts.index(term.text)] * term.weight for term in word]
        total += np.max(columns, axis=0) if columns else 0.0
    return np.where([item.matches for item in words], total, 0.0)
