"""Markdown with YAML front matter: the text stays as written, its blocks become spans of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lagotto.documents import Block, BlockKind, Document, Span, json_value, storable
from lagotto.errors import ReadError
from lagotto.readers.base import (
    Draft,
    HeadingMark,
    ReadOptions,
    Source,
    one_line,
    parse_iso_date,
    sections,
)
from lagotto.readers.decode import decode
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.language import language_code

BLOCKS: dict[str, BlockKind] = {
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "fence": "code",
    "code_block": "code",
}
PARTS = {
    "table_open": "tr_open",
    "bullet_list_open": "list_item_open",
    "ordered_list_open": "list_item_open",
}
MAX_LENGTH = 65_536
FENCED = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
CREATED = ("created_at", "created", "date", "published")
UPDATED = ("updated_at", "updated", "modified", "lastmod", "last_modified")


class MarkdownReader:
    """Reads CommonMark with tables and front matter.

    The text is the source without its front matter. Front matter gives title, summary
    (`description`), language (`lang`) and dates; everything else in it, such as author and tags, is
    metadata. Front matter that isn't valid YAML is read as text.
    """

    kind = "markdown"
    suffixes = SUFFIXES["markdown"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        front, text = split_front_matter(storable(decode(source.read(limit=options.max_bytes))))
        marks, blocks = structure(text)
        yield Draft(
            kind=self.kind,
            text=text,
            headings=sections(marks, end=len(text)),
            blocks=tuple(blocks),
            **front,
        ).document(source, options=options)


def structure(text: str) -> tuple[list[HeadingMark], list[Block]]:
    """The headings of a Markdown text, and its outermost tables, lists and code blocks."""
    tokens = _parser().parse(text)
    lines = Lines(text)
    return list(_marks(tokens, lines)), list(_blocks(tokens, lines))


class Lines:
    """Converts line numbers to spans of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))

    def span(self, first: int, last: int) -> Span:
        """The span of lines `first` to `last` (exclusive), without trailing white space."""
        start = self._starts[first]
        covered = self._text[start : self._starts[min(last, len(self._starts) - 1)]]
        return Span(start, start + len(covered.rstrip()))


@cache
def _parser() -> MarkdownIt:
    # Inline markup is needed for headings only, and slow to parse on long lines.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


@cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _marks(tokens: Sequence[Token], lines: Lines) -> Iterator[HeadingMark]:
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0:
            title = plain_text(inline.content)
            start = lines.span(*_lines(token)).start
            if title:
                yield HeadingMark(start=start, level=int(token.tag[1]), title=title)


def plain_text(markup: str) -> str:
    """Strip the markup from one line of Markdown."""
    [inline] = _inline_parser().parseInline(markup)
    words = (
        child.content if child.type in ("text", "code_inline", "image") else " "
        for child in inline.children or ()
        if child.content or child.type in ("softbreak", "hardbreak")
    )
    return one_line("".join(words))


def _lines(token: Token) -> tuple[int, int]:
    first, last = token.map or (0, 0)
    return first, last


def _blocks(tokens: Sequence[Token], lines: Lines) -> Iterator[Block]:
    """Yield the outermost tables, lists and code blocks."""
    end = 0
    for index, token in enumerate(tokens):
        kind = BLOCKS.get(token.type)
        if kind is None:
            continue
        span = lines.span(*_lines(token))
        if end <= span.start < span.end:
            end = span.end
            parts = tuple(_parts(tokens, index, lines))
            yield Block(start=span.start, end=span.end, kind=kind, parts=parts)


def _parts(tokens: Sequence[Token], index: int, lines: Lines) -> Iterator[Span]:
    """Yield the rows or items of the block that `tokens[index]` opens; code has none.

    The delimiter row of a table belongs to its header row.
    """
    opening = tokens[index]
    if opening.nesting != 1:
        return
    part, depth = PARTS[opening.type], opening.level + (2 if opening.type == "table_open" else 1)
    for position in range(index + 1, len(tokens)):
        token = tokens[position]
        if token.level == opening.level:
            return
        if token.type == part and token.level == depth:
            first, last = _lines(token)
            dashes = part == "tr_open" and first == _lines(opening)[0]
            span = lines.span(first, last + dashes)
            if span.end > span.start:
                yield span


class _PlainLoader(yaml.SafeLoader):
    """Loads YAML without aliases, which can expand without bound, and without explicit tags."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent) or self.peek_event().tag:  # type: ignore[no-untyped-call]
            raise yaml.YAMLError("aliases and tags are not front matter")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of a Draft that front matter gives, and the text without it, if it is valid."""
    match = FENCED.match(text, 0, MAX_LENGTH)
    fields = _load(match[1]) if match else None
    if match is None or fields is None:
        return {}, text
    return _front_matter(fields), text[match.end() :].lstrip("\n")


MOST_BITS = 1_000
"""Python refuses to write integers of thousands of digits in decimal."""


def _load(block: str) -> dict[str, object] | None:
    try:
        loaded = yaml.load(block, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    return {str(key): _plain(value) for key, value in loaded.items()}


def _plain(value: object) -> object:
    """`value` if it is valid JSON, else its string form."""
    try:
        json_value(value)
    except ValueError:
        huge = isinstance(value, int) and value.bit_length() > MOST_BITS
        return f"{value:#x}" if huge else str(value)
    return value


def _front_matter(fields: dict[str, object]) -> dict[str, Any]:
    """The fields of a Draft; what has no field of its own is metadata."""
    title, summary = fields.get("title"), fields.get("summary") or fields.get("description")
    tag = fields.get("language") or fields.get("lang")
    language = language_code(str(tag)) if tag else None
    used = {"title", "summary", "description"} | ({"language", "lang"} if language else set())
    return {
        "title": str(title) if title else None,
        "summary": str(summary) if summary else None,
        "language": language,
        "created_at": _moment(fields, CREATED),
        "updated_at": _moment(fields, UPDATED),
        "metadata": {key: value for key, value in fields.items() if key not in used},
    }


def _moment(fields: Mapping[str, object], names: tuple[str, ...]) -> datetime | None:
    for name in names:
        match fields.get(name):
            case datetime() as moment:
                return moment
            case date() as day:
                return datetime(day.year, day.month, day.day, tzinfo=UTC)
            case str() as written:
                return parse_iso_date(written)
    return None
