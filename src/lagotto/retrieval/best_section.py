"""The section that a hit is cited by: that of the part which matches the query best.

A chunk may reach into several sections. The words of the query tell which one a hit is about; where
they don't, the hit is cited by what the sections have in common.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from lagotto.chunkers.structure import common_path
from lagotto.documents import Chunk, Span
from lagotto.retrieval.ranking import Ranked
from lagotto.retrieval.snippets import term_worth
from lagotto.terms import compounds, content_terms, index_terms, query_terms

Path = tuple[str, ...]


def cited_headings(item: Ranked, query: str) -> Path:
    """The headings of a hit: by its evidence, by the child that was found, or by words."""
    chunk = item.passage.chunk
    if item.evidence is not None and chunk.sections:
        return _heading_path_at(chunk, chunk.start + item.evidence[0])
    return best_headings(item.found, query, language=item.passage.document.language)


def best_headings(chunk: Chunk, query: str, *, language: str | None) -> Path:
    """The headings of the section of `chunk` that holds the most of the query's content words.

    A word counts for less the more of the sections hold it, and a number for more than a word.
    """
    if not chunk.sections:
        return chunk.heading_path
    wanted = _wanted(query, language)
    held = [wanted & set(index_terms(text, language)) for text in _texts(chunk)]
    holders = Counter(term for terms in held for term in terms)
    scores = [sum(term_worth(term) / holders[term] for term in terms) for terms in held]
    best = max(scores)
    paths = [
        section.heading_path
        for section, score in zip(chunk.sections, scores, strict=True)
        if score == best
    ]
    return common_path(paths)


def _wanted(query: str, language: str | None) -> set[str]:
    words = content_terms(query_terms(query, (language,)))
    return {*(variant for word in words for variant in word.variants), *compounds(query)}


def _texts(chunk: Chunk) -> list[str]:
    """The part of the chunk in each of its sections."""
    edges = [section.start - chunk.start for section in chunk.sections]
    spans = (Span(*pair) for pair in pairwise([*edges, len(chunk.text)]))
    return [chunk.text[span.start : span.end] for span in spans]


def _heading_path_at(chunk: Chunk, offset: int) -> Path:
    first, *others = chunk.sections
    before = [section for section in others if section.start <= offset]
    return (before[-1] if before else first).heading_path
