"""The scores of chunks that are in no index: every leg computed from their texts and vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, in_context
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.text_query import Match, TextQuery, holds
from lagotto.retrieval.exact import ExactQuery
from lagotto.retrieval.fusion import Scores
from lagotto.terms import analyze


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A chunk as a text index would see it: its document, and its terms in order."""

    document: Document
    chunk: Chunk
    terms: Sequence[str]


def index_text(document: Document, chunks: Sequence[Chunk], *, headers: bool) -> list[IndexedText]:
    """Analyse chunks as an index does; with `headers` under their title and headings."""
    indexed = []
    for chunk in chunks:
        text = chunk.text
        if headers:
            text = in_context(document.title, text, headings=chunk.heading_path)
        indexed.append(IndexedText(document, chunk, analyze(text, document.language)))
    return indexed


def without_excluded(texts: Sequence[IndexedText], excluded: Match | None) -> list[int]:
    """The indices of the texts that `excluded` does not hold for."""
    return [
        index
        for index, text in enumerate(texts)
        if excluded is None or not holds(excluded, text.terms)
    ]


def query_texts(query: TextQuery) -> list[str]:
    """The distinct terms of a query."""
    return list(dict.fromkeys(term.text for word in query.words for term in word))


def bm25(texts: Sequence[IndexedText], query: TextQuery, *, idfs: Scores) -> Scores:
    """The BM25 score of each text; `idfs` are those of `query_texts` in the store.

    Where the store holds whole documents, a term that many of them hold may still be rare among
    these chunks, so the greater IDF counts. Lengths are compared with the mean of these chunks. A
    word counts as its best alternative does; a text that the query's condition does not hold for
    scores 0.
    """
    wanted = query_texts(query)
    total = np.zeros(len(texts))
    if not texts or not wanted:
        return total
    known = set(wanted)
    counted = [Counter(filter(known.__contains__, text.terms)) for text in texts]
    counts = np.array([[held[term] for term in wanted] for held in counted], np.float64)
    lengths = np.array([len(text.terms) for text in texts], np.float64)
    here = [idf(int(having), count=len(texts)) for having in np.count_nonzero(counts, axis=0)]
    scores = term_weight(
        counts, lengths[:, None], mean=lengths.mean() or 1.0, idf=np.maximum(idfs, here)
    )
    for word in query.words:
        columns = [scores[:, wanted.index(term.text)] * term.weight for term in word]
        total += np.max(columns, axis=0) if columns else 0.0
    found = [query.where is None or holds(query.where, text.terms) for text in texts]
    return np.where(found, total, 0.0)


def matched(texts: Sequence[IndexedText], query: TextQuery) -> NDArray[np.bool_]:
    """The texts that a query finds at all: those its condition holds for, or that hold a term."""
    if query.where is not None:
        return np.array([holds(query.where, text.terms) for text in texts], np.bool_)
    wanted = set(query_texts(query))
    return np.array([not wanted.isdisjoint(text.terms) for text in texts], np.bool_)


def exact_shares(texts: Sequence[IndexedText], query: ExactQuery) -> Scores:
    """The share of a query's exact wordings that each text holds."""
    wordings = [part.query.where for part in query.parts]
    held = [
        [wording is not None and holds(wording, text.terms) for wording in wordings]
        for text in texts
    ]
    shares: Scores = np.array(held, np.float64).reshape(len(texts), len(wordings)).mean(axis=1)
    return shares
