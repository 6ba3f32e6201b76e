"""Terms like a word: pg_trgm proposes, the rules that every store has decide.

Terms are words, and the rules go by the similarity of whole words. Word similarity compares with
the best stretch of a term and is never less, so `<%` proposes whatever `%` does, and more that the
rules reject. Corrections have a low threshold, where that more would take twice the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

import numpy as np

from lagotto.documents import storable
from lagotto.indexes.base import TextSnapshot
from lagotto.indexes.text_query import Term, as_terms
from lagotto.stores.postgres.transaction import Reader
from lagotto.terms import Vocabulary
from lagotto.terms.features import deletion_pairs
from lagotto.terms.vocabulary import CANDIDATES, LEAST_SIMILARITY

PROPOSED = 2 * CANDIDATES
"""More than the rules look at, since some terms may be gone."""

_NEAREST = f"ORDER BY similarity(text, %(word)s) DESC, text LIMIT {PROPOSED}"
_SIMILAR = f"SELECT text FROM term WHERE %(word)s <%% text {_NEAREST}"
_MEANT = f"""
(SELECT text FROM term WHERE text %% %(word)s {_NEAREST})
UNION
SELECT text FROM term WHERE shapes && %(shapes)s
"""
_THRESHOLDS = """
SELECT set_config('pg_trgm.similarity_threshold', %(threshold)s, true),
       set_config('pg_trgm.word_similarity_threshold', %(threshold)s, true)
"""


async def corrections(reader: Reader, text: TextSnapshot, word: str) -> tuple[Term, ...]:
    """What a misspelt word, which is no term, may mean."""
    shapes = deletion_pairs([word])[0].view(np.int64).tolist()
    asked = {"word": storable(word), "shapes": shapes}
    vocabulary = await _vocabulary(reader, text, _MEANT, asked, threshold=LEAST_SIMILARITY)
    return as_terms(vocabulary.corrections(word))


async def similar(
    reader: Reader, text: TextSnapshot, word: str, *, threshold: float
) -> tuple[Term, ...]:
    """The terms that are like a word by their trigrams."""
    asked = {"word": storable(word)}
    vocabulary = await _vocabulary(reader, text, _SIMILAR, asked, threshold=threshold)
    return as_terms(vocabulary.similar(word, threshold=threshold))


async def _vocabulary(
    reader: Reader,
    text: TextSnapshot,
    proposing: LiteralString,
    asked: Mapping[str, object],
    *,
    threshold: float,
) -> Vocabulary:
    """The terms that come into question, of those that some chunk holds."""
    await reader.rows(_THRESHOLDS, {"threshold": str(threshold)})
    terms = [term for (term,) in await reader.rows(proposing, asked)]
    frequencies = await text.frequencies(terms)
    return Vocabulary([term for term, having in zip(terms, frequencies, strict=True) if having])
