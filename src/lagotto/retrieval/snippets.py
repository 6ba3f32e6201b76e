"""Snippets: the part of a passage that matches the query best. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Literal

from lagotto.documents import Record, Span
from lagotto.errors import ConfigError
from lagotto.terms import Vocabulary, analyze, content_terms, query_terms
from lagotto.terms.words import is_european, is_unspaced

ELLIPSIS = "…"
SHORTEST = 3
"""One character and an ellipsis on either side."""

NEAR = 0.72
"""The similarity at which a word of the text counts as one of the query: Philidor, Philador."""

NUMBER_WORTH = 3
"""The weight of a number or a code beside that of a word: readers search for these."""


CACHE_SIZE = 2**14
"""Words whose terms are cached: passages of an answer have many in common."""

_european_words = re.compile(r"[^\W_]+").finditer


class Snippet(Record):
    """Part of a text with white space collapsed; `highlights` are the matching words in it."""

    text: str
    highlights: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class _Match:
    span: Span
    terms: frozenset[str]


def snippet(text: str, query: str, *, language: str | None = None, max_chars: int = 300) -> Snippet:
    """The part of `text` with the most words of `query`, at most `max_chars` characters.

    Words match by their index terms in `language`, so `dog` matches `dogs`; a word that the text
    doesn't have may be misspelt, and matches the one most like it. Stop words of the query don't
    count. What is cut off, between words where possible, leaves an ellipsis.
    """
    if max_chars < SHORTEST:
        raise ConfigError(f"max_chars is {max_chars}; a snippet needs at least {SHORTEST}")
    text = " ".join(text.split())
    found = _matches(text, query, language)
    window = Span(0, len(text))
    if len(text) > max_chars:
        width = max_chars - 2 * len(ELLIPSIS)
        best = _best(found, width)
        window = _at_words(text, _around(best, width, len(text)), best)
    return _cut(text, window, found)


def matched_spans(text: str, query: str, *, language: str | None = None) -> tuple[Span, ...]:
    """The words of a text that match those of a query, as `snippet` finds them."""
    return tuple(_merged(match.span for match in _matches(text, query, language)))


def _matches(text: str, query: str, language: str | None) -> list[_Match]:
    words = [(span, _terms(text[span.start : span.end], language)) for span in _words(text)]
    wanted = _wanted(query, language, present={term for _, terms in words for term in terms})
    found = ((span, wanted.intersection(terms)) for span, terms in words)
    return [_Match(span, frozenset(terms)) for span, terms in found if terms]


@lru_cache(maxsize=CACHE_SIZE)
def _terms(word: str, language: str | None) -> tuple[str, ...]:
    return tuple(analyze(word, language))


def _wanted(query: str, language: str | None, *, present: set[str]) -> set[str]:
    """The terms of the query, and those of `present` that it seems to have misspelt."""
    words = content_terms(query_terms(query, (language,)))
    asked = {term for word in words for term in word.variants}
    if not present or asked <= present:
        return asked
    vocabulary = Vocabulary(present)
    guesses = (vocabulary.corrections(term, limit=1) for term in asked - present)
    return asked.union(
        *([term for term, likeness in guess if likeness >= NEAR] for guess in guesses)
    )


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


def _best(found: Sequence[_Match], width: int) -> Span:
    """The stretch of at most `width` with the terms worth most, then with the most matches."""
    best, best_worth = Span(0, 0), (0, 0)
    terms: Counter[str] = Counter()
    first = 0
    for last, match in enumerate(found):
        terms.update(match.terms)
        while match.span.end - found[first].span.start > width and first < last:
            terms.subtract(found[first].terms)
            first += 1
        worth = (sum(map(term_worth, +terms)), last - first + 1)
        if worth > best_worth:
            best, best_worth = Span(found[first].span.start, match.span.end), worth
    return best


def term_worth(term: str) -> int:
    """How much a term counts beside others: numbers and codes count for more."""
    return NUMBER_WORTH if any(map(str.isdigit, term)) else 1


def _around(stretch: Span, width: int, length: int) -> Span:
    """`width` characters with the stretch in the middle, moved inside the text."""
    spare = width - (stretch.end - stretch.start)
    start = min(max(0, stretch.start - max(0, spare) // 2), length - width)
    return Span(start, start + width)


def _at_words(text: str, window: Span, stretch: Span) -> Span:
    """The window without the words that stick out of it; the stretch stays whole."""
    start, end = window
    if start > 0 and text[start - 1] != " ":
        start = text.find(" ", start, stretch.start) + 1 or start
    if end < len(text) and text[end] != " ":
        space = text.rfind(" ", max(start, stretch.end), end)
        end = space if space > start else end
    kept = text[start:end]
    start += len(kept) - len(kept.lstrip(" "))
    return Span(start, start + len(kept.strip(" ")))


def _cut(text: str, window: Span, found: Sequence[_Match]) -> Snippet:
    before = ELLIPSIS if window.start > 0 else ""
    after = ELLIPSIS if window.end < len(text) else ""
    shift = len(before) - window.start
    inside = (
        Span(match.span.start + shift, match.span.end + shift)
        for match in found
        if window.start <= match.span.start and match.span.end <= window.end
    )
    return Snippet(
        text=before + text[window.start : window.end] + after, highlights=tuple(_merged(inside))
    )


def _merged(spans: Iterator[Span]) -> Iterator[Span]:
    """Ascending spans, with those that overlap as one."""
    current: Span | None = None
    for span in spans:
        if current is not None and span.start < current.end:
            current = Span(current.start, span.end)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current
