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

from lagotto.documents import Block, BlockKind, Span, json_value, storable
from lagotto.readers.base import Draft, HeadingMark, Source, one_line, parse_date, sections
from lagotto.readers.decode import decode
from lagotto.readers.formats import draft_reader
from lagotto.readers.language import language_code

BLOCKS: dict[str, BlockKind] = {
    "table_open": "table",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "fence": "code",
    "code_block": "code",
}
MAX_LENGTH = 65_536
FENCED = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
CREATED = ("created_at", "created", "date", "published")
UPDATED = ("updated_at", "updated", "modified", "lastmod", "last_modified")


@draft_reader("markdown")
def read_markdown(source: Source, limit: int) -> Draft:
    """Read CommonMark with tables and front matter.

    The text is the source without its front matter. Front matter gives title, summary
    (`description`), language (`lang`) and dates; everything else in it, such as author and tags, is
    metadata. Front matter that isn't valid YAML is read as text.
    """
    front, text = _split_front_matter(storable(decode(source.read(limit=limit))))
    marks, blocks = structure(text)
    headings = sections(marks, end=len(text))
    return Draft(text=text, headings=headings, blocks=tuple(blocks), **front)


def structure(text: str, *, offset: int = 0) -> tuple[list[HeadingMark], list[Block]]:
    """The headings, and the outermost tables, lists and code of a text that begins at `offset`."""
    tokens = _parser().parse(text)
    lines = Lines(text, offset)
    return list(_marks(tokens, lines)), list(_blocks(tokens, lines))


class Lines:
    """Converts line numbers to spans of the text, which begins at an offset."""

    def __init__(self, text: str, offset: int = 0) -> None:
        self._text = text
        self._offset = offset
        self._starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))

    def span(self, first: int, last: int) -> Span:
        """The span of lines `first` to `last` (exclusive), without trailing white space."""
        start = self._starts[first]
        covered = self._text[start : self._starts[min(last, len(self._starts) - 1)]]
        return Span(self._offset + start, self._offset + start + len(covered.rstrip()))

    def of(self, token: Token, *, more: int = 0) -> Span:
        first, last = token.map or (0, 0)
        return self.span(first, last + more)


@cache
def _parser() -> MarkdownIt:
    # Inline markup is needed for headings only, and slow to parse on long lines.
    return MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])


def _marks(tokens: Sequence[Token], lines: Lines) -> Iterator[HeadingMark]:
    for token, inline in pairwise(tokens):
        is_heading = token.type == "heading_open" and token.level == 0
        if is_heading and (title := _plain_text(inline.content)):
            yield HeadingMark(lines.of(token).start, level=int(token.tag[1]), title=title)


def _plain_text(markup: str) -> str:
    """Strip the markup from one line of Markdown."""
    tokens: list[Token] = []
    _parser().inline.parse(markup, _parser(), {}, tokens)
    words = (
        token.content if token.type in ("text", "text_special", "code_inline", "image") else " "
        for token in tokens
        if token.content or token.type in ("softbreak", "hardbreak")
    )
    return one_line("".join(words))


def _blocks(tokens: Sequence[Token], lines: Lines) -> Iterator[Block]:
    """Yield the outermost tables, lists and code blocks."""
    end = 0
    for index, token in enumerate(tokens):
        kind = BLOCKS.get(token.type)
        if kind is None:
            continue
        span = lines.of(token)
        if end <= span.start < span.end:
            end = span.end
            parts = tuple(_parts(tokens, index, lines)) if kind != "code" else ()
            yield Block(start=span.start, end=span.end, kind=kind, parts=parts)


def _parts(tokens: Sequence[Token], index: int, lines: Lines) -> Iterator[Span]:
    """Yield the rows or items of the block that `tokens[index]` opens.

    The delimiter row of a table belongs to its header row.
    """
    opening = tokens[index]
    is_table = opening.type == "table_open"
    part, depth = ("tr_open", 2) if is_table else ("list_item_open", 1)
    start = lines.of(opening).start
    for position in range(index + 1, len(tokens)):
        token = tokens[position]
        if token.level == opening.level:
            return
        if token.type == part and token.level == opening.level + depth:
            is_header = is_table and lines.of(token).start == start
            span = lines.of(token, more=is_header)
            if span.end > span.start:
                yield span


class _PlainLoader(yaml.SafeLoader):
    """Loads YAML without aliases, which can expand without bound, and without explicit tags."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent) or self.peek_event().tag:  # type: ignore[no-untyped-call]
            raise yaml.YAMLError("aliases and tags are not front matter")
        return super().compose_node(parent, index)


MOST_BITS = 1_000
"""Python refuses to write integers of thousands of digits in decimal."""


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of a Draft that front matter gives, and the text without it, if it is valid.

    What has no field of its own is metadata.
    """
    match = FENCED.match(text, 0, MAX_LENGTH)
    try:
        loaded = yaml.load(match[1], Loader=_PlainLoader) if match else None
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError):
        loaded = None
    if match is None or not isinstance(loaded, dict):
        return {}, text
    fields = {str(key): _plain(value) for key, value in loaded.items()}
    title, summary = fields.get("title"), fields.get("summary") or fields.get("description")
    tag = fields.get("language") or fields.get("lang")
    language = language_code(str(tag)) if tag else None
    used = {"title", "summary", "description"} | ({"language", "lang"} if language else set())
    draft = {
        "title": str(title) if title else None,
        "summary": str(summary) if summary else None,
        "language": language,
        "created_at": _moment(fields, CREATED),
        "updated_at": _moment(fields, UPDATED),
        "metadata": {key: value for key, value in fields.items() if key not in used},
    }
    return draft, text[match.end() :].lstrip("\n")


def _plain(value: object) -> object:
    """`value` if it is valid JSON, else its string form."""
    try:
        json_value(value)
    except ValueError:
        huge = isinstance(value, int) and value.bit_length() > MOST_BITS
        return f"{value:#x}" if huge else str(value)
    return value


def _moment(fields: Mapping[str, object], names: tuple[str, ...]) -> datetime | None:
    for name in names:
        match fields.get(name):
            case datetime() as moment:
                return moment
            case date() as day:
                return datetime(day.year, day.month, day.day, tzinfo=UTC)
            case str() as text:
                return parse_date(text)
    return None
