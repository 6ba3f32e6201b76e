"""Hypothesis strategies: difficult texts, documents with structure, filters and what they match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lagotto import filters
from lagotto.documents import Block, Document, Heading, Page, Span
from lagotto.filters import Filter, Operand

SLOW = settings(
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow], deadline=None
)
"""For contracts: several classes inherit a test, and what they test may take its time."""

_SAMPLES = """
the cat sat on a mat. Dr. Smith, e.g., went home! Really? 3.14 naïve Straße поле чудес. 你好。 世界
こんにちは ภาษาไทย שלום مرحبا 👩‍👩‍👧 e\u0301 İstanbul ﷺ x_y foo(bar) antidisestablishmentarianism
https://example.org/a?b=c#d
"""
_WORDS = st.sampled_from(_SAMPLES.split())
_GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\r\n", "\t", "\n    ", "", "\u00a0", "\u3000"])


def texts(*, max_words: int = 120) -> st.SearchStrategy[str]:
    """Prose in many scripts with any white space, and sometimes arbitrary Unicode."""
    prose = st.lists(st.tuples(_WORDS, _GAPS), max_size=max_words).map(
        lambda pairs: "".join(word + gap for word, gap in pairs)
    )
    return st.one_of(prose, st.text(max_size=300), st.text("ab .\n", max_size=600))


@st.composite
def documents(draw: st.DrawFn, *, max_elements: int = 12) -> Document:
    """Documents with paragraphs, headings, tables, lists and pages, and correct spans."""
    text, page_starts = "", [0]
    headings: list[tuple[int, int, str]] = []
    blocks: list[Block] = []
    for _ in range(draw(st.integers(0, max_elements))):
        start = len(text)
        kind = draw(st.sampled_from(["paragraph", "heading", "table", "list", "page"]))
        if kind == "paragraph":
            text += draw(texts(max_words=40)) + "\n\n"
        elif kind == "heading":
            headings.append((start, draw(st.integers(1, 4)), draw(_WORDS)))
            text += headings[-1][2] + "\n\n"
        elif kind == "page":
            page_starts.append(start)
        else:
            spans = []
            for part in draw(st.lists(texts(max_words=25), min_size=1, max_size=6)):
                line = part.replace("\n", " ") + "\n"
                spans.append(Span(len(text), len(text) + len(line)))
                text += line
            block = {"start": start, "end": len(text), "kind": kind, "parts": spans}
            blocks.append(Block.model_validate(block))
            text += "\n"
    pages = [
        Page(start=start, end=end, number=number)
        for number, (start, end) in enumerate(pairwise([*page_starts, len(text)]), 1)
    ]
    return Document(
        text=text,
        pages=tuple(pages) if len(pages) > 1 else (),
        headings=tuple(
            Heading(
                start=start,
                end=next((at for at, other, _ in headings[index:] if other <= level), len(text)),
                level=level,
                title=title,
            )
            for index, (start, level, title) in enumerate(headings, 1)
        ),
        blocks=tuple(blocks),
    )


# Few values, so that filters often match.
KEYS = ["a", "b", "title", "metadata", "x.y", "$c"]
NAMES = ["a", "b", "a.b", "a.a.b", "metadata.title", "metadata.metadata.a", r"x\.y", "$c"]
NAMES += ["page", "title", "created_at"]
NUMBERS = st.sampled_from([0, 1, -1, 2, 1.0, 0.5, 2**53, 2**53 + 1, float(2**53)])
TEXTS = st.sampled_from(["", "a", "A", "ab", "b", "ä", "1", "true", "2024-01-01", "\U0001f600"])
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans())
DATES = st.sampled_from([date(2024, 1, 1), datetime(2024, 1, 1), datetime(2023, 6, 5, 4, 3)])

VALUES: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), SCALARS, DATES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def filterable_documents(draw: st.DrawFn) -> Document:
    """Documents that filters often match."""
    text = "some text"
    numbers = draw(st.lists(st.integers(1, 3), max_size=2))
    return Document(
        text=text,
        title=draw(st.none() | TEXTS),
        created_at=draw(st.none() | st.just(datetime(2024, 1, 1, tzinfo=UTC))),
        pages=tuple(Page(number=number, start=0, end=len(text)) for number in numbers),
        metadata=draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)),
    )


OPERANDS: dict[str, st.SearchStrategy[Operand]] = {
    "page": NUMBERS,
    "title": TEXTS,
    "created_at": DATES,
}


def _leaves(name: str) -> st.SearchStrategy[Filter]:
    operand = OPERANDS.get(name, st.one_of(SCALARS, DATES))
    ordered = operand.filter(lambda value: not isinstance(value, bool))
    several = st.lists(st.none() | operand, max_size=3)
    operands: dict[st.SearchStrategy[Any], Sequence[Callable[..., Filter]]] = {
        st.none() | operand: (filters.Eq, filters.Ne),
        ordered: (filters.Gt, filters.Gte, filters.Lt, filters.Lte),
        several: (filters.In, filters.NotIn),
    }
    if name != "created_at":
        operands[operand] = (filters.Contains,)
    kinds: list[st.SearchStrategy[Filter]] = [
        st.builds(node, st.just(name), each) for each, nodes in operands.items() for node in nodes
    ]
    kinds.append(st.just(filters.Exists(name)))
    return st.one_of(kinds)


def _combined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, max_size=3)
    return st.one_of(
        several.map(lambda parts: filters.And(*parts)),
        several.map(lambda parts: filters.Or(*parts)),
        inner.map(filters.Not),
    )


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of([_leaves(name) for name in NAMES]), _combined, max_leaves=4
)
