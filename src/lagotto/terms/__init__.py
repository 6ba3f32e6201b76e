"""Index terms: analyse text the same way on every store, and correct misspelt words."""

from lagotto.terms.analyzer import (
    MAX_QUERY_TERMS,
    QueryTerm,
    analyze,
    content_terms,
    index_terms,
    keywords,
    query_terms,
)
from lagotto.terms.compounds import compounds
from lagotto.terms.similarity import edit_distance, similarity, trigrams, word_similarity
from lagotto.terms.stems import analyzer_id
from lagotto.terms.stopwords import stop_words
from lagotto.terms.vocabulary import Vocabulary

__all__ = [
    "MAX_QUERY_TERMS",
    "QueryTerm",
    "Vocabulary",
    "analyze",
    "analyzer_id",
    "compounds",
    "content_terms",
    "edit_distance",
    "index_terms",
    "keywords",
    "query_terms",
    "similarity",
    "stop_words",
    "trigrams",
    "word_similarity",
]
