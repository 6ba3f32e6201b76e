"""Hypothesis strategies for filters, and for documents that they often match."""

from __future__ import annotations

from datetime import UTC, date, datetime

from hypothesis import strategies as st

from lagotto.documents import Document, Page
from lagotto.filters import (
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    Gt,
    Gte,
    In,
    Lt,
    Lte,
    Ne,
    Not,
    NotIn,
    Or,
)
from lagotto.filters.algebra import Operand

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
def documents(draw: st.DrawFn) -> Document:
    text = "some text"
    numbers = draw(st.lists(st.integers(1, 3), max_size=2))
    return Document(
        text=text,
        title=draw(st.none() | TEXTS),
        created_at=draw(st.none() | st.just(datetime(2024, 1, 1, tzinfo=UTC))),
        pages=tuple(Page(number=number, start=0, end=len(text)) for number in numbers),
        metadata=draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)),
    )


def operands(name: str) -> st.SearchStrategy[Operand]:
    by_field: dict[str, st.SearchStrategy[Operand]] = {
        "page": NUMBERS,
        "title": TEXTS,
        "created_at": DATES,
    }
    return by_field.get(name, st.one_of(SCALARS, DATES))


def leaves(name: str) -> st.SearchStrategy[Filter]:
    operand = operands(name)
    ordered = operand.filter(lambda value: not isinstance(value, bool))
    several = st.lists(st.none() | operand, max_size=3)
    kinds: list[st.SearchStrategy[Filter]] = [
        *(st.builds(node, st.just(name), st.none() | operand) for node in (Eq, Ne)),
        *(st.builds(node, st.just(name), ordered) for node in (Gt, Gte, Lt, Lte)),
        *(st.builds(node, st.just(name), several) for node in (In, NotIn)),
        st.just(Exists(name)),
    ]
    if name != "created_at":
        kinds.append(st.builds(Contains, st.just(name), operand))
    return st.one_of(kinds)


def combined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, max_size=3)
    return st.one_of(
        several.map(lambda parts: And(*parts)),
        several.map(lambda parts: Or(*parts)),
        inner.map(Not),
    )


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.one_of([leaves(name) for name in NAMES]), combined, max_leaves=4
)
