"""Index terms: analyse text the same way on every store, and correct misspelt words."""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from lagotto._internal.registry import exports
from lagotto.terms.analyzer import (
    MAX_QUERY_TERMS as MAX_QUERY_TERMS,
    QueryTerm as QueryTerm,
    analyze as analyze,
    content_terms as content_terms,
    index_terms as index_terms,
    keywords as keywords,
    query_language as query_language,
    query_terms as query_terms,
)
from lagotto.terms.languages import (
    analyzer_id as analyzer_id,
    stop_words as stop_words,
)
from lagotto.terms.vocabulary import (
    SimilarWords as SimilarWords,
    Vocabulary as Vocabulary,
    edit_distance as edit_distance,
    similarity as similarity,
    trigrams as trigrams,
    word_similarity as word_similarity,
)
from lagotto.terms.words import (
    compounds as compounds,
    term_worth as term_worth,
)

__all__, __getattr__, __dir__ = exports(__name__)
