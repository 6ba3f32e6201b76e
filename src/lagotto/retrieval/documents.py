"""Documents as results: chunks grouped by document, and snippets."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import groupby, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint, with_checkpoints
from lagotto.documents import Chunk, Document, DocumentRef, Record, Span
from lagotto.errors import ConfigError
from lagotto.results import Leg, LegScore
from lagotto.retrieval.explain import leg_scores
from lagotto.retrieval.fusion import Candidates, Fused, LegScores
from lagotto.retrieval.stages import document_order
from lagotto.stores.base import Passage
from lagotto.terms import SimilarWords, analyze, content_terms, query_terms, term_worth
from lagotto.terms.words import is_european, is_unspaced

NOT_FOUND = np.iinfo(np.int64).max
NO_DOCUMENT = -1


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that was found: its fused score, its score in each leg, and its best chunk."""

    document: Document
    score: float
    legs: Mapping[Leg, LegScore]
    best_chunk: Chunk

    @property
    def name(self) -> DocumentRef:
        return self.document.ref


def collapse(
    candidates: Candidates, passages: Sequence[Passage]
) -> tuple[list[Document], NDArray[np.int64], Candidates]:
    """The documents of the candidates, the index of each candidate's, and they as candidates.

    A candidate without a passage belongs to no document. In each leg a document has the score of
    its best chunk, and the rank that its best chunk gives it among documents.
    """
    documents = {item.document.ref: item.document for item in passages}
    different = sorted(documents.values(), key=document_order)
    index_of = {item.ref: index for index, item in enumerate(different)}
    of_key = {item.key: index_of[item.document.ref] for item in passages}
    owners = np.array([of_key.get(key, NO_DOCUMENT) for key in candidates.keys.tolist()], np.int64)
    legs = {
        leg: _of_documents(each, owners, len(different)) for leg, each in candidates.legs.items()
    }
    return different, owners, Candidates(np.arange(len(different)), legs, candidates.depth)


def rank_documents(
    documents: Sequence[Document],
    candidates: Candidates,
    fused: Fused,
    best_chunks: Mapping[DocumentRef, Chunk],
) -> list[FoundDocument]:
    """The documents in a total order: score, best rank in a leg, source."""
    ranked = []
    for row in with_checkpoints(np.lexsort((candidates.best_ranks, -fused.scores)).tolist()):
        document, score = documents[row], float(fused.scores[row])
        legs = leg_scores(row, candidates, fused)
        ranked.append(FoundDocument(document, score, legs, best_chunks[document.ref]))
    return ranked


def _of_documents(leg: LegScores, owners: NDArray[np.int64], count: int) -> LegScores:
    valid = owners != NO_DOCUMENT
    scores = np.full(count, np.nan)
    np.fmax.at(scores, owners[valid], leg.scores[valid])  # an unknown score, NaN, counts as none
    best = np.full(count, NOT_FOUND)
    chunk_ranks = np.where(leg.ranks > 0, leg.ranks, NOT_FOUND)
    np.minimum.at(best, owners[valid], chunk_ranks[valid])
    listed = best < NOT_FOUND
    ranks = np.where(listed, 1 + np.searchsorted(np.sort(best[listed]), best), 0)
    return LegScores(scores, ranks.astype(np.int64))


ELLIPSIS = "…"
SHORTEST = 3
"""One character and an ellipsis on either side."""

NEAR = 0.72
"""The similarity at which a word of the text counts as one of the query: Philidor, Philador."""

CACHE_SIZE = 2**14
"""Words whose terms are cached: passages of an answer have many in common."""

_european_words = re.compile(r"[^\W_]+").finditer


class Snippet(Record):
    """Part of a text with white space collapsed; `highlights` are the matching words in it."""

    text: str
    highlights: tuple[Span, ...] = ()


_Match = tuple[Span, set[str]]
"""The span of a word, and those of its terms that match."""


def snippet(text: str, query: str, *, language: str | None = None, max_chars: int = 300) -> Snippet:
    """The part of `text` with the most words of `query`, as `Highlighter.snippet` finds it."""
    return Highlighter(query).snippet(text, language=language, max_chars=max_chars)


class Highlighter:
    """Finds the words of one query in any number of texts.

    Words match by their index terms in the language of a text, so `dog` matches `dogs`; a word that
    the text doesn't have may be misspelt, and matches the one most like it. Stop words of the query
    don't count. What is known of a word of one text counts for the next ones, so many texts cost
    little more than the analysis of their words. Reaches a checkpoint before each text.
    """

    def __init__(self, query: str) -> None:
        self._matching = cache(partial(_matching, query))

    def snippet(self, text: str, *, language: str | None = None, max_chars: int = 300) -> Snippet:
        """The part of `text` with the most words of the query, at most `max_chars` characters.

        What is cut off, between words where possible, leaves an ellipsis.
        """
        if max_chars < SHORTEST:
            raise ConfigError(f"max_chars is {max_chars}; a snippet needs at least {SHORTEST}")
        text = " ".join(text.split())
        matches = self._matches(text, language)
        window = Span(0, len(text))
        if len(text) > max_chars:
            width = max_chars - 2 * len(ELLIPSIS)
            best = _best(matches, width)
            spare = width - (best.end - best.start)
            # The best stretch is in the middle, unless that is beyond an end of the text.
            start = min(max(0, best.start - max(0, spare) // 2), len(text) - width)
            window = _at_words(text, Span(start, start + width), best)
        before = ELLIPSIS if window.start > 0 else ""
        after = ELLIPSIS if window.end < len(text) else ""
        shift = len(before) - window.start
        inside = (
            Span(start + shift, end + shift)
            for (start, end), _ in matches
            if window.start <= start and end <= window.end
        )
        part = before + text[window.start : window.end] + after
        return Snippet(text=part, highlights=_merged(inside))

    def spans(self, text: str, *, language: str | None = None) -> tuple[Span, ...]:
        """The words of a text that match those of the query."""
        return _merged(span for span, _ in self._matches(text, language))

    def _matches(self, text: str, language: str | None) -> list[_Match]:
        checkpoint()
        words = [(span, _terms(text[span.start : span.end], language)) for span in _words(text)]
        present = {term for _, terms in words for term in terms}
        matching = self._matching(language)(present)
        matches = ((span, matching.intersection(terms)) for span, terms in words)
        return [match for match in matches if match[1]]


def _matching(query: str, language: str | None) -> Callable[[set[str]], set[str]]:
    """Gives the terms of a query, and those of a text that it seems to have misspelt."""
    words = content_terms(query_terms(query, (language,)))
    own_terms = {term for word in words for term in word.variants}
    alike = cache(SimilarWords(own_terms, threshold=NEAR).to)

    def matching(present: set[str]) -> set[str]:
        if own_terms <= present:
            return own_terms
        nearest: dict[str, tuple[float, str]] = {}
        for term in present - own_terms:
            for own, likeness in alike(term):
                if own not in present:
                    nearest[own] = min(nearest.get(own, (0.0, "")), (-likeness, term))
        return own_terms.union(term for _, term in nearest.values())

    return matching


@lru_cache(maxsize=CACHE_SIZE)
def _terms(word: str, language: str | None) -> tuple[str, ...]:
    return tuple(analyze(word, language))


def _words(text: str) -> Iterator[Span]:
    """The spans of words; pairs of characters in scripts without spaces, as in the index."""
    if is_european(text):
        yield from (Span(*match.span()) for match in _european_words(text))
        return
    for kind, group in groupby(enumerate(text), key=lambda item: _kind(item[1])):
        offsets = [offset for offset, _ in group]
        if kind == "unspaced" and len(offsets) > 1:
            yield from (Span(offset, after + 1) for offset, after in pairwise(offsets))
        elif kind != "between":
            yield Span(offsets[0], offsets[-1] + 1)


def _kind(char: str) -> Literal["spaced", "unspaced", "between"]:
    if is_unspaced(char):
        return "unspaced"
    in_word = char.isalnum() or unicodedata.category(char).startswith("M")
    return "spaced" if in_word else "between"


def _best(matches: Sequence[_Match], width: int) -> Span:
    """The stretch of at most `width` with the terms worth most, then with the most matches."""
    best, best_worth = Span(0, 0), (0, 0)
    counts: Counter[str] = Counter()
    first = worth = 0
    for last, (span, terms) in enumerate(matches):
        for term in terms:
            worth += 0 if counts[term] else term_worth(term)
            counts[term] += 1
        while span.end - matches[first][0].start > width and first < last:
            for term in matches[first][1]:
                counts[term] -= 1
                worth -= 0 if counts[term] else term_worth(term)
            first += 1
        if (worth, last - first + 1) > best_worth:
            best = Span(matches[first][0].start, span.end)
            best_worth = (worth, last - first + 1)
    return best


def _at_words(text: str, window: Span, stretch: Span) -> Span:
    """The window without the words that stick out of it; the stretch stays whole."""
    start, end = window
    if start > 0 and text[start - 1] != " ":
        start = text.find(" ", start, stretch.start) + 1 or start
    if end < len(text) and text[end] != " ":
        space = text.rfind(" ", max(start, stretch.end), end)
        end = space if space > start else end
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip(" "))
    return Span(start, start + len(inner.strip(" ")))


def _merged(spans: Iterator[Span]) -> tuple[Span, ...]:
    disjoint: list[Span] = []
    for span in spans:
        if disjoint and span.start < disjoint[-1].end:
            disjoint[-1] = Span(disjoint[-1].start, span.end)
        else:
            disjoint.append(span)
    return tuple(disjoint)
