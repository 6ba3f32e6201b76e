"""The section that a hit is cited by: that of the part which matches the query best.

A chunk may reach into several sections. The words of the query tell which one a hit is about; where
they don't, the hit is cited by what the sections have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise

from lagotto.chunkers.structure import common_section
from lagotto.documents import Chunk, ChunkSection, Span
from lagotto.retrieval.ranking import Ranked
from lagotto.retrieval.snippets import term_worth
from lagotto.terms import compounds, content_terms, index_terms, query_terms


def cited_section(item: Ranked, query: str, *, corrected: Collection[str] = ()) -> ChunkSection:
    """The section of a hit: by its evidence, by the child that was found, or by words.

    `corrected` are the terms that misspelt words of the query stand for.
    """
    chunk = item.passage.chunk
    if item.evidence is not None and chunk.sections:
        return _section_at(chunk, chunk.start + item.evidence[0])
    language = item.passage.document.language
    return best_section(item.found, query, language=language, corrected=corrected)


def best_section(
    chunk: Chunk, query: str, *, language: str | None, corrected: Collection[str] = ()
) -> ChunkSection:
    """The section of `chunk` that holds the most of the query's content words.

    A word counts for less the more of the sections hold it, and a number for more than a word.
    """
    if not chunk.sections:
        return ChunkSection(chunk.start, chunk.heading_path, chunk.row_range, chunk.item_range)
    wanted = _wanted(query, language) | set(corrected)
    held = [wanted & set(index_terms(text, language)) for text in _texts(chunk)]
    holders = Counter(term for terms in held for term in terms)
    scores = [sum(term_worth(term) / holders[term] for term in terms) for terms in held]
    best = max(scores)
    return common_section(
        [section for section, score in zip(chunk.sections, scores, strict=True) if score == best]
    )


def _wanted(query: str, language: str | None) -> set[str]:
    words = content_terms(query_terms(query, (language,)))
    return {*(variant for word in words for variant in word.variants), *compounds(query)}


def _texts(chunk: Chunk) -> list[str]:
    """The part of the chunk in each of its sections."""
    edges = [section.start - chunk.start for section in chunk.sections]
    spans = (Span(*pair) for pair in pairwise([*edges, len(chunk.text)]))
    return [chunk.text[span.start : span.end] for span in spans]


def _section_at(chunk: Chunk, offset: int) -> ChunkSection:
    first, *others = chunk.sections
    before = [section for section in others if section.start <= offset]
    return before[-1] if before else first
