"""The syntax of search engines: words, "quoted phrases", `or`, and a minus for what is unwanted.

Every text is a valid query, as for PostgreSQL's websearch_to_tsquery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lagotto.indexes.text_query import Match, Without, Word
from lagotto.retrieval.query.operands import (
    Operand,
    Reading,
    either,
    every,
    limited,
    operand,
    pieces,
    quoted_in,
    stop_words_in,
)


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of the query; `source` has its quotation marks."""

    operand: Operand
    source: str
    negated: bool

    def __len__(self) -> int:
        return len(self.operand)

    @property
    def match(self) -> Match:
        return Without(self.operand.match) if self.negated else self.operand.match

    @property
    def may_be_or(self) -> bool:
        return self.source.lower() == "or" and not self.negated


def read_web(text: str, languages: Sequence[str | None]) -> Reading:
    """Any text, read as a query.

    `or` binds weaker than the words beside it. At the end, at the beginning or after another one
    it is a word. Stop words outside quotations make no condition unless nothing else is wanted.
    """
    alternatives = _alternatives(limited(_items(text, languages)))
    items = [item for items in alternatives for item in items]
    dropped = _dropped(items, stop_words_in(text, languages))
    kept = [
        every(item.match for item in items if item not in dropped)
        for items in alternatives
        if not dropped.issuperset(items)
    ]
    wanted = [item for item in items if not item.negated]
    return Reading(
        where=either(kept) if kept else None,
        text=" ".join(item.source for item in wanted),
        parts=tuple(item.source for item in wanted if item not in dropped),
    )


def _alternatives(items: Sequence[_Item]) -> list[list[_Item]]:
    """The alternatives between the `or`s."""
    alternatives: list[list[_Item]] = [[]]
    for number, item in enumerate(items, start=1):
        if item.may_be_or and alternatives[-1] and number < len(items):
            alternatives.append([])
        else:
            alternatives[-1].append(item)
    return alternatives


def _dropped(items: Sequence[_Item], stops: frozenset[Word]) -> set[_Item]:
    """The stop words, but those that are wanted only if something else is wanted as well."""
    stop_items = {item for item in items if item.operand.match in stops and not _quoted(item)}
    wanted = {item for item in items if not item.negated}
    return stop_items - wanted if wanted <= stop_items else stop_items


def _quoted(item: _Item) -> bool:
    return quoted_in(item.source).fullmatch(item.source) is not None


def _items(text: str, languages: Sequence[str | None]) -> Iterator[_Item]:
    """The parts that have words."""
    for source, negated in _sources(text):
        if found := operand(source, languages):
            yield _Item(found, source, negated)


def _sources(text: str) -> Iterator[tuple[str, bool]]:
    """Quotations and words in order, and whether a minus stands before each."""
    start = 0
    for quoted in quoted_in(text).finditer(text):
        before = text[start : quoted.start()]
        yield from _words(before)
        yield quoted.group(), before[-2:].lstrip() == "-"
        start = quoted.end()
    yield from _words(text[start:])


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """A minus rejects the word that it touches; two of them begin an option such as --all."""
    for chunk in text.split():
        bare = chunk.lstrip("([{")
        negated = bare.startswith("-") and not bare.startswith("--")
        for index, piece in enumerate(pieces(bare)):
            yield piece.lstrip("-") if negated else piece, negated and index == 0
