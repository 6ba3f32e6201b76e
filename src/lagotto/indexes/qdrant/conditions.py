"""Conditions on the words of a chunk as conditions on its payload, which holds its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from qdrant_client import models

from lagotto.documents import storable
from lagotto.indexes.qdrant.filters import Condition
from lagotto.indexes.text_query import Either, Every, Match, Phrase, Prefix, Word

TERMS = "terms"
"""The payload name of the terms that a chunk has, each once."""

Expand = Callable[[str], Iterable[str]]
"""The terms of the index that begin with something."""


class TermCondition(NamedTuple):
    """A condition that every chunk meets for which a Match holds; `exact` if no other does."""

    condition: Condition
    exact: bool


EVERYTHING: Condition = models.Filter()


def holding(terms: Iterable[str]) -> Condition:
    """Chunks that hold one of the terms."""
    wanted = sorted(set(map(storable, terms)))
    return models.FieldCondition(key=TERMS, match=models.MatchAny(any=wanted))


def term_condition(match: Match, expand: Expand) -> TermCondition:
    """The condition for a Match; the order of words is not stored, so phrases are not exact."""
    if isinstance(match, Word):
        return TermCondition(holding(match.terms), exact=True)
    if isinstance(match, Prefix):
        return TermCondition(holding(expand(match.start)), exact=True)
    if isinstance(match, Phrase):
        variants = [_with_all(variant) for variant in match.variants if variant]
        return TermCondition(_one_of(variants), exact=False)
    if isinstance(match, Every):
        parts = [term_condition(part, expand) for part in match.parts]
        condition = models.Filter(must=[part.condition for part in parts])
        return TermCondition(condition, all(part.exact for part in parts))
    if isinstance(match, Either):
        parts = [term_condition(part, expand) for part in match.parts]
        return TermCondition(
            _one_of([part.condition for part in parts]), all(part.exact for part in parts)
        )
    part = term_condition(match.part, expand)
    if not part.exact:  # what meets it need not hold it
        return TermCondition(EVERYTHING, exact=False)
    return TermCondition(models.Filter(must_not=[part.condition]), exact=True)


def _with_all(terms: Sequence[str]) -> Condition:
    return models.Filter(must=[holding([term]) for term in sorted(set(terms))])


def _one_of(conditions: Sequence[Condition]) -> Condition:
    """One of the conditions; without any, none: unlike an empty `should`, which holds always."""
    return models.Filter(should=list(conditions)) if conditions else holding([])
