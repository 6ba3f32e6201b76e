"""What the full-text leg is asked: words that score, and what a chunk must hold to be found.

Pure: `holds` is the meaning of a condition, against which every store is tested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lagotto.prefs import FtsMode
from lagotto.terms.vocabulary import MOST_CORRECTIONS, Vocabulary


class Term(NamedTuple):
    """An index term to look for; its BM25 score is multiplied by `weight`."""

    text: str
    weight: float = 1.0


class Word(NamedTuple):
    """A chunk that holds one of the terms: a word's stems in the languages of the base."""

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A chunk that holds a term with this prefix."""

    start: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A chunk that holds the terms of one of the variants one right after the other.

    A variant is the phrase as one language stems it.
    """

    variants: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Every:
    """A chunk for which all parts hold; without parts, any chunk."""

    parts: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """A chunk for which one of the parts holds; without parts, no chunk."""

    parts: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """A chunk for which the part does not hold."""

    part: Match


Match = Word | Prefix | Phrase | Every | Either | Without


NativeFunction = Literal["ts_rank", "ts_rank_cd"]


@dataclass(frozen=True, slots=True)
class NativeQuery:
    """A query as it was typed, which the store's server reads and ranks by functions of its own.

    `config` names the language whose rules it follows; None for those of each document's own.
    """

    text: str
    mode: FtsMode
    function: NativeFunction
    config: str | None = None


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Any of the words, or else all that `where` holds for; more and rarer words score higher.

    A word is given by its alternatives (its stems in several languages, or the words that it may
    be a misspelling of), of which the best one counts. All of them have the IDF of the word: a stem
    that few chunks hold must not score more than the word does elsewhere. The score is BM25 over
    `words` alone;
    `where` says which chunks are found at all, with or without any of the words, and a chunk that
    it does not hold for scores 0.
    `native`, which only a store that can do so is given, says both in place of these two.
    """

    words: tuple[tuple[Term, ...], ...]
    where: Match | None = None
    native: NativeQuery | None = None


@dataclass(frozen=True, slots=True)
class Likeness:
    """Which terms are like a word: those with a trigram similarity of `threshold`, itself included.

    Without a threshold, the others that it may be a misspelling of.
    """

    threshold: float | None = None
    limit: int = MOST_CORRECTIONS

    def find(self, vocabulary: Vocabulary, word: str) -> tuple[Term, ...]:
        """The terms of a vocabulary that are like a word, best first."""
        if self.threshold is None:
            return as_terms(vocabulary.corrections(word, limit=self.limit))
        return as_terms(vocabulary.similar(word, threshold=self.threshold, limit=self.limit))

    def is_known(self, vocabulary: Vocabulary, words: Sequence[str]) -> bool:
        """Whether `find_all` takes no time."""
        known = vocabulary.is_corrected
        return self.threshold is None and all(known(word, limit=self.limit) for word in words)

    def find_all(self, vocabulary: Vocabulary, words: Sequence[str]) -> list[tuple[Term, ...]]:
        """The terms of a vocabulary that are like each of some words."""
        return [self.find(vocabulary, word) for word in words]


def single_words(terms: Iterable[str]) -> list[Word]:
    """Each term as a word of its own."""
    return [Word((term,)) for term in terms]


def as_word(alternatives: Sequence[Term]) -> Word:
    """A word of a query, which has one document frequency: that of all its alternatives."""
    return Word(tuple(term.text for term in alternatives))


def as_terms(weighted: Iterable[tuple[str, float]]) -> tuple[Term, ...]:
    """Terms from their texts and weights."""
    return tuple(Term(text, weight) for text, weight in weighted)


def substituted(match: Match, alternatives: Mapping[str, Sequence[str]]) -> Match:
    """The condition with terms that stand for others: any of them as a word, the first in phrases.

    What a chunk must not hold stays as it is.
    """
    if isinstance(match, Word):
        terms = [other for term in match.terms for other in alternatives.get(term, (term,))]
        return Word(tuple(dict.fromkeys(terms)))
    if isinstance(match, Phrase):
        variants = (
            tuple(next(iter(alternatives.get(term, ())), term) for term in variant)
            for variant in match.variants
        )
        return Phrase(tuple(dict.fromkeys(variants)))
    if isinstance(match, Every | Either):
        return type(match)(tuple(substituted(part, alternatives) for part in match.parts))
    return match


def holds(match: Match, terms: Sequence[str]) -> bool:
    """Whether a chunk with these index terms, in their order, is one that `match` asks for."""
    if isinstance(match, Word):
        return not set(match.terms).isdisjoint(terms)
    if isinstance(match, Prefix):
        return any(term.startswith(match.start) for term in terms)
    if isinstance(match, Phrase):
        return any(_holds_phrase(variant, terms) for variant in match.variants)
    if isinstance(match, Every):
        return all(holds(part, terms) for part in match.parts)
    if isinstance(match, Either):
        return any(holds(part, terms) for part in match.parts)
    return not holds(match.part, terms)


def _holds_phrase(phrase: Sequence[str], terms: Sequence[str]) -> bool:
    wanted, width = tuple(phrase), len(phrase)
    starts = range(len(terms) - width + 1) if width else ()
    return any(tuple(terms[start : start + width]) == wanted for start in starts)
