"""Query syntax: from a query as typed, in one of five syntaxes, to a full-text query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from lagotto.indexes.bm25 import repeated
from lagotto.indexes.text_query import Every, Match, Term, Without, Word
from lagotto.prefs import FtsMode
from lagotto.retrieval.query.operands import (
    Reading,
    either,
    every,
    limited,
    operand,
    pieces,
    stop_words_in,
)
from lagotto.retrieval.query.web_syntax import read_web
from lagotto.terms import MAX_QUERY_TERMS, compounds, query_terms
from lagotto.terms.words import runs


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What a query asks for.

    `words` score: those that it wants, without stop words except where a part has nothing else.
    `where` is the whole condition that a chunk must meet, None if there is none. `excluded` is
    what no chunk of any leg may hold: the negations that `where` demands in any case. `text` is
    the query without its operators and without what it rejects, for whoever embeds it.
    """

    words: tuple[tuple[Term, ...], ...]
    where: Match | None
    excluded: Match | None
    text: str

    @property
    def has_text(self) -> bool:
        """Whether there is a word to search for; a query may be empty, or only reject."""
        return bool(runs(self.text))


def parse_query(
    text: str, mode: FtsMode = "any", languages: Sequence[str | None] = (None,)
) -> ParsedQuery:
    """Read `text` by the rules of `mode`, over documents in `languages`.

    `any` takes whatever it is as words, of which a chunk may hold any. The others follow
    PostgreSQL: `web` websearch_to_tsquery, `plain` plainto_tsquery, `phrase` phraseto_tsquery,
    `strict` to_tsquery. Only `strict` knows wrong queries: it raises a QueryError.
    """
    reading = _read(text, mode, languages)
    words = _scored(reading, languages)
    return ParsedQuery(words, reading.where, _rejected(reading.where), reading.text)


def _read(text: str, mode: FtsMode, languages: Sequence[str | None]) -> Reading:
    match mode:
        case "web":
            return read_web(text, languages)
        case "plain":
            return _read_plain(text, languages)
        case "phrase":
            whole = operand(text, languages)
            return Reading(whole.match if whole else None, text, (text,))
        case "strict":
            from lagotto.retrieval.query.strict_syntax import read_strict

            return read_strict(text, languages)
    return Reading(None, text, (text,))


def _read_plain(text: str, languages: Sequence[str | None]) -> Reading:
    found = limited(filter(None, (operand(piece, languages) for piece in pieces(text))))
    stops = stop_words_in(text, languages)
    asked = [one for one in found if one.match not in stops] or found
    where = every(one.match for one in asked) if asked else None
    return Reading(where, text, tuple(one.text for one in asked))


def _scored(reading: Reading, languages: Sequence[str | None]) -> tuple[tuple[Term, ...], ...]:
    """The content words of each part, all words of a part without any, and the compounds."""
    stops = stop_words_in(reading.text, languages)
    found: Counter[tuple[str, ...]] = Counter()
    for part in reading.parts:
        words = query_terms(part, languages)
        content = [word for word in words if Word(word.variants) not in stops] or words
        for word in content:
            found[word.variants] += word.count
    found.update((name,) for part in reading.parts for name in compounds(part))
    return tuple(
        weighed(variants, times) for variants, times in islice(found.items(), MAX_QUERY_TERMS)
    )


def weighed(variants: Sequence[str], times: int) -> tuple[Term, ...]:
    """The terms of a word, weighted by how often the query repeats it."""
    return tuple(Term(variant, repeated(times)) for variant in variants)


def _rejected(where: Match | None) -> Match | None:
    parts = where.parts if isinstance(where, Every) else (where,)
    rejected = [part.part for part in parts if isinstance(part, Without)]
    return either(rejected) if rejected else None
