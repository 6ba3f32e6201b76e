"""Terms like a word: pg_trgm proposes, the rules that every store has decide."""

from __future__ import annotations

import numpy as np

from lagotto.documents import storable
from lagotto.stores.postgres.reader import Reader
from lagotto.stores.postgres.text_search import TextSearch
from lagotto.stores.text_query import Term, as_terms
from lagotto.terms import Vocabulary
from lagotto.terms.features import deletion_pairs
from lagotto.terms.vocabulary import CANDIDATES, LEAST_SIMILARITY

PROPOSED = 2 * CANDIDATES
"""More than the rules look at, since some terms may be gone."""

_LIKE = f"""
(SELECT text FROM term WHERE text %% %(word)s
 ORDER BY similarity(text, %(word)s) DESC, text LIMIT {PROPOSED})
UNION
SELECT text FROM term WHERE shapes && %(shapes)s
"""
_THRESHOLD = "SELECT set_config('pg_trgm.similarity_threshold', %(threshold)s, true)"


async def corrections(reader: Reader, text: TextSearch, word: str) -> tuple[Term, ...]:
    """What a misspelt word may mean; nothing if it is a term."""
    if (await text.frequencies([word]))[0]:
        return ()
    shapes = deletion_pairs([word])[0].view(np.int64).tolist()
    vocabulary = await _vocabulary(reader, text, word, shapes, threshold=LEAST_SIMILARITY)
    return as_terms(vocabulary.corrections(word))


async def similar(
    reader: Reader, text: TextSearch, word: str, *, threshold: float
) -> tuple[Term, ...]:
    """The terms that are like a word by their trigrams."""
    vocabulary = await _vocabulary(reader, text, word, [], threshold=threshold)
    return as_terms(vocabulary.similar(word, threshold=threshold))


async def _vocabulary(
    reader: Reader, text: TextSearch, word: str, shapes: list[int], *, threshold: float
) -> Vocabulary:
    """The terms that come into question, of those that some chunk holds."""
    await reader.rows(_THRESHOLD, {"threshold": str(threshold)})
    rows = await reader.rows(_LIKE, {"word": storable(word), "shapes": shapes})
    terms = [term for (term,) in rows]
    frequencies = await text.frequencies(terms)
    return Vocabulary([term for term, having in zip(terms, frequencies, strict=True) if having])
