"""Pieces of a query, quoted parts and words, as conditions on the index terms of a chunk."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeVar

from lagotto.indexes.text_query import Either, Every, Match, Phrase, Without, Word
from lagotto.terms import MAX_QUERY_TERMS, analyze, query_terms
from lagotto.terms.words import UNSPACED, runs

QUOTATION_MARKS = '"“”„«»「」『』'

# No quotation holds another mark of its own kind, so that a page of opening marks takes linear
# time. A mark right behind a letter or digit opens nothing: 24" is a length.
QUOTED = (
    rf"(?<![^\W{UNSPACED}])(?:\"[^\"]*\"|”[^“”„]*”)"
    r"|“[^“”\"]*[”\"]|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』"
)
"""A quotation with its marks, one on either side, as a regular expression."""

CONNECTORS = frozenset("_-./@#&+\\\u2010\u2011")
"""What holds the parts of an identifier together: foo_bar, a/b, AT&T, C++."""

Sizable = TypeVar("Sizable", bound=Sized)

_BREAK = re.compile(r"-{2,}|\.{2,}")
_NOTHING = re.compile(r"(?!)")


def quoted_in(text: str) -> re.Pattern[str]:
    """Matches the quotations of `text`; compiled only if there are marks, as it takes a while."""
    return _quoted() if any(mark in text for mark in QUOTATION_MARKS) else _NOTHING


@cache
def _quoted() -> re.Pattern[str]:
    return re.compile(QUOTED)


@dataclass(frozen=True, slots=True)
class Operand:
    """A word or a phrase of a query: `text` as written, its terms in each of the languages."""

    text: str
    variants: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.variants[0])

    @property
    def match(self) -> Word | Phrase:
        """A chunk that holds it, in one of the languages."""
        distinct = tuple(dict.fromkeys(self.variants))
        if len(self) == 1:
            return Word(tuple(term for (term,) in distinct))
        return Phrase(distinct)

    def followed_by(self, other: Operand) -> Operand:
        """The phrase of both."""
        pairs = zip(self.variants, other.variants, strict=True)
        joined = tuple(first + second for first, second in pairs)
        return Operand(f"{self.text} {other.text}", joined)


@dataclass(frozen=True, slots=True)
class Reading:
    """A query by the rules of a syntax.

    `where` is its condition, None for an empty one, `text` what it wants, and `parts` what of that
    the condition asks for and can score.
    """

    where: Match | None
    text: str
    parts: tuple[str, ...]


def operand(text: str, languages: Sequence[str | None]) -> Operand | None:
    """What `text` says, its terms in order; None if there is no word in it.

    Of a longer text the first `MAX_QUERY_TERMS` terms count.
    """
    tags = tuple(languages) or (None,)
    variants = tuple(tuple(analyze(text, tag)[:MAX_QUERY_TERMS]) for tag in tags)
    return Operand(text, variants) if variants[0] else None


def pieces(text: str) -> list[str]:
    """The words of `text` as written, identifiers whole, without the punctuation around."""
    unbroken = _BREAK.sub(" ", text)
    return "".join(" " if _separates(char) else char for char in unbroken).split()


@lru_cache(maxsize=4096)
def _separates(char: str) -> bool:
    if char in CONNECTORS or runs(char):
        return False
    category = unicodedata.category(char)  # marks and invisible characters stand inside of words
    return category != "Cf" and not category.startswith("M")


def limited(items: Iterable[Sizable]) -> list[Sizable]:
    """As many of the items, from the first on, as have `MAX_QUERY_TERMS` terms in all."""
    kept: list[Sizable] = []
    left = MAX_QUERY_TERMS
    for item in items:
        left -= len(item)
        if left < 0:
            break
        kept.append(item)
    return kept


def stop_words_in(text: str, languages: Sequence[str | None]) -> frozenset[Word]:
    """The stop words of the language that `text` seems to be in, as far as they occur in it."""
    terms = query_terms(text, languages)
    content = {term.variants for term in terms if not term.stop}
    return frozenset(Word(term.variants) for term in terms if term.variants not in content)


def every(parts: Iterable[Match]) -> Match:
    """All of the parts, each once."""
    flat: dict[Match, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, Every) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Every(tuple(flat))


def either(parts: Iterable[Match]) -> Match:
    """One of the parts, each once."""
    flat: dict[Match, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, Either) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Either(tuple(flat))


def without(part: Match) -> Match:
    """Not the part."""
    return part.part if isinstance(part, Without) else Without(part)
