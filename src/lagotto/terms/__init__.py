"""Index terms: analyse text the same way on every store, and correct misspelt words."""

from lagotto.terms.analyzer import (
    MAX_QUERY_TERMS,
    QueryTerm,
    analyze,
    content_terms,
    index_terms,
    keywords,
    query_language,
    query_terms,
)
from lagotto.terms.languages import analyzer_id, stop_words
from lagotto.terms.vocabulary import (
    SimilarWords,
    Vocabulary,
    edit_distance,
    similarity,
    trigrams,
    word_similarity,
)
from lagotto.terms.words import compounds, term_worth

__all__ = [
    "MAX_QUERY_TERMS",
    "QueryTerm",
    "SimilarWords",
    "Vocabulary",
    "analyze",
    "analyzer_id",
    "compounds",
    "content_terms",
    "edit_distance",
    "index_terms",
    "keywords",
    "query_language",
    "query_terms",
    "similarity",
    "stop_words",
    "term_worth",
    "trigrams",
    "word_similarity",
]
