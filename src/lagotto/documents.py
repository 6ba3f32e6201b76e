"""The records: a Document is a source, a Chunk is a span of it.

Only the document is given by the user; chunks are derived from it and can be rebuilt. Hence their
ids are hashes of what they are derived from: the same text, chunker and span always give the same
chunk id, on any machine and in any store.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import takewhile
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
import pydantic
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, WithJsonSchema

DEFAULT_COLLECTION = "default"
CODE, ROW = "code", "row"
"""Kinds of documents that are cited in their own way: by path and lines, by file and row."""

JsonScalar = str | int | float | bool | None
"""The types of metadata values; dates become ISO 8601 strings."""


def storable(text: str) -> str:
    """`text` with NULs and lone surrogates, which no database takes, replaced by U+FFFD.

    The length stays the same, so offsets into the original stay right.
    """
    if "\0" not in text and text.isascii():
        return text
    text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


Text = Annotated[str, AfterValidator(storable)]


class Record(pydantic.BaseModel):
    """The base of all public records: frozen, unknown fields are errors."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", defer_build=True)


class DocumentRef(NamedTuple):
    """The name of a document: its collection, and its id in there."""

    collection: str
    id: str


class Span(NamedTuple):
    """Characters `start` to `end` (exclusive) of a document's text."""

    start: int
    end: int


class Region(Record):
    """A structural part of a document's text; `start` and `end` as in `Span`."""

    start: int
    end: int


class Page(Region):
    """A page of a paged document; `number` counts from 1, `label` is what is printed on it."""

    number: int = Field(ge=1)
    label: Text | None = None


class Heading(Region):
    """A section: its title, its depth (1 is the top), and all the text that belongs to it.

    The tree is in the spans: a subsection lies inside its parent's span.
    """

    level: int = Field(ge=1)
    title: Text


AnyRegion = TypeVar("AnyRegion", bound=Region)
BlockKind = Literal["table", "list", "code"]


class Block(Region):
    """A table, list or piece of code; `parts` are a table's rows or a list's items.

    `numbers` are those of the parts in the source, if they are not 1, 2, 3 and so on.
    """

    kind: BlockKind
    parts: tuple[Span, ...] = ()
    numbers: tuple[int, ...] = ()

    @pydantic.model_validator(mode="after")
    def _a_number_per_part(self) -> Self:
        if self.numbers and len(self.numbers) != len(self.parts):
            raise ValueError(f"{len(self.parts)} parts have {len(self.numbers)} numbers")
        return self

    @pydantic.model_serializer(mode="wrap")
    def _without_needless_numbers(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Most blocks have none, and content hashes are older than they are."""
        fields: dict[str, Any] = usual(self)
        if not self.numbers:
            fields.pop("numbers", None)
        return fields


def iso(moment: date) -> str:
    """A date as `YYYY-MM-DD`, a datetime as UTC with microseconds: text that sorts by time."""
    if not isinstance(moment, datetime):
        return moment.isoformat()
    naive = in_utc(moment).replace(tzinfo=None)
    return naive.isoformat(timespec="microseconds") + "Z"


def in_utc(moment: datetime) -> datetime:
    """`moment` in UTC; one without a zone is taken for UTC. ValueError outside years 1 to 9999."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(f"{moment} is before year 1 or after year 9999 in UTC") from exc


MAX_METADATA_DEPTH = 64
"""Levels of lists and dicts; what serialises or compares them is recursive."""


def json_value(value: Any, path: str = "metadata", *, depth: int = 0) -> Any:
    """`value` as plain JSON, or a ValueError that names the part that isn't."""
    if depth > MAX_METADATA_DEPTH:
        text = f"{path[:60]}..." if len(path) > 60 else path
        raise ValueError(f"{text} is nested more than {MAX_METADATA_DEPTH} levels deep; flatten it")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            bits = value.bit_length()
            text = f"{value}" if bits < 256 else f"{bits} bits long"
            raise ValueError(f"{path} is {text}: integers must fit in 64 bits; store it as text")
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{path} is {value}: JSON has no such number; leave it out")
        return float(value)
    if isinstance(value, date):
        return iso(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{path} has the key {key!r}: keys must be strings")
        return {
            storable(key): json_value(item, f"{path}.{key}", depth=depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return [
            json_value(item, f"{path}[{index}]", depth=depth + 1)
            for index, item in enumerate(items)
        ]
    raise ValueError(
        f"{path} is a {type(value).__name__}: metadata holds text, numbers, booleans, dates, "
        "lists and dicts; convert it first"
    )


LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,5}")


def language_tag(tag: str) -> str | None:
    """A language tag as in BCP 47, such as `en`, `de-AT` or `zh_Hans`; none for blank text.

    The syntax is checked, not the registry: a language without a stemmer is indexed word by word.
    ValueError for anything else: stemmers and splitters can't take it.
    """
    if not tag.strip():
        return None
    if not LANGUAGE_TAG.fullmatch(tag.strip()):
        raise ValueError(f"{tag!r:.40} is not a language tag; write a code such as en or de-AT")
    return tag.strip()


Language = Annotated[
    str | None,
    AfterValidator(lambda tag: language_tag(tag or "")),
    WithJsonSchema({"type": ["string", "null"], "pattern": f"^(?:{LANGUAGE_TAG.pattern})?$"}),
]
"""A language tag; see `language_tag`."""
Metadata = Annotated[dict[str, Any], pydantic.BeforeValidator(json_value)]
Moment = Annotated[datetime, AfterValidator(in_utc)]


def digest(*parts: object) -> str:
    """A short stable hash (128 bits, hex) of `parts`, unambiguous about where each one ends."""
    canonical = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


class Document(Record):
    """A source: the text as the user gave it, with its structure as spans of that text.

    `id` is unique within its collection. Left out, it is a hash of the source (so that reading a
    changed file again gives the same document), or of the content where there is no source.
    `content_hash` covers whatever chunks and vectors are derived from: title, text, structure.
    """

    collection: Text = Field(default=DEFAULT_COLLECTION, min_length=1)
    kind: Text = "text"
    source: Text = ""
    source_ref: Text | None = None
    title: Text | None = None
    summary: Text | None = None
    language: Language = None
    metadata: Metadata = Field(default_factory=dict)
    text: Text
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    created_at: Moment | None = None
    updated_at: Moment | None = None
    content_hash: Text = Field(default_factory=lambda fields: _content_hash(fields))
    id: Text = Field(default_factory=lambda fields: _document_id(fields), min_length=1)

    @property
    def ref(self) -> DocumentRef:
        """The name of the document."""
        return DocumentRef(self.collection, self.id)

    @property
    def is_only_title(self) -> bool:
        """Whether it has a title and no text, as many entries of a catalogue have."""
        return bool(self.title and self.title.strip()) and not self.text.strip()

    @pydantic.field_validator("pages")
    @classmethod
    def _by_number(cls, pages: tuple[Page, ...]) -> tuple[Page, ...]:
        return tuple(sorted(pages, key=lambda page: page.number))

    @pydantic.field_validator("headings", "blocks")
    @classmethod
    def _outer_first(cls, regions: tuple[AnyRegion, ...]) -> tuple[AnyRegion, ...]:
        """What holds another one comes before it; what is empty holds nothing."""
        return tuple(sorted(regions, key=lambda one: (one.start, one.end > one.start, -one.end)))

    @pydantic.model_validator(mode="after")
    def _inside_the_text(self) -> Self:
        regions: tuple[Region, ...] = (*self.pages, *self.headings, *self.blocks)
        for region in regions:
            if not 0 <= region.start <= region.end <= len(self.text):
                raise ValueError(
                    f"{type(region).__name__.lower()} {region.start}-{region.end} lies outside the "
                    f"text, which has {len(self.text)} characters"
                )
        return self


def _content_hash(fields: Mapping[str, Any]) -> str:
    structure = [
        [item.model_dump(mode="json") for item in fields.get(name, ())]
        for name in ("pages", "headings", "blocks")
    ]
    return digest(fields.get("title"), fields.get("text"), structure)


def _document_id(fields: Mapping[str, Any]) -> str:
    if source := fields.get("source"):
        return digest("source", source, fields.get("source_ref"))
    return digest("content", fields.get("content_hash"))


ChunkLevel = Literal["flat", "parent", "child"]
ElementKind = Literal["paragraph", "table", "list", "code"]


class Location(Record):
    """The location of a passage in its document; chunks, hits and citations all have one.

    `start` and `end` are offsets in the document's text. `pages` is the first and the last page
    that the passage touches, `heading_path` the titles of its section, outermost first. `row_range`
    and `item_range` are the rows of a table or the items of a list, `lines` the lines of source
    code, counted from 1. Both ends of a range are included.
    """

    start: int = Field(ge=0)
    end: int
    pages: tuple[int, int] | None = None
    heading_path: tuple[str, ...] = ()
    row_range: tuple[int, int] | None = None
    item_range: tuple[int, int] | None = None
    lines: tuple[int, int] | None = None

    @property
    def location(self) -> Location:
        """The location alone, without the other fields of the record."""
        return Location(**self.location_fields())

    def location_fields(self) -> dict[str, Any]:
        """The location as fields, for another record of the same passage."""
        return {name: getattr(self, name) for name in _LOCATION_FIELDS}


_LOCATION_FIELDS = tuple(Location.model_fields)


class ChunkSection(NamedTuple):
    """A section that a chunk reaches into: the offset from which on it does, and its headings.

    `row_range` and `item_range` are the rows and items of the chunk that are in the section.
    """

    start: int
    heading_path: tuple[str, ...]
    row_range: tuple[int, int] | None = None
    item_range: tuple[int, int] | None = None

    def location_fields(self) -> dict[str, Any]:
        """What a passage that is cited by this section has in its Location."""
        return {name: value for name, value in self._asdict().items() if name != "start"}


def common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all of the paths start with."""
    pairs = zip(min(paths), max(paths), strict=False)  # whatever these two share, all do
    return tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def common_section(sections: Sequence[ChunkSection]) -> ChunkSection:
    """What sections have in common; rows and items if only one of the sections has any."""
    rows, items = (
        [numbers for numbers in ranges if numbers]
        for ranges in zip(*((one.row_range, one.item_range) for one in sections), strict=True)
    )
    return ChunkSection(
        sections[0].start,
        common_path([section.heading_path for section in sections]),
        rows[0] if len(rows) == 1 else None,
        items[0] if len(items) == 1 else None,
    )


class Chunk(Location):
    """A span of a document: `document.text[chunk.start:chunk.end] == chunk.text`, always.

    `ordinal` counts from 0 within the chunk's level. A chunk of more than one section has all of
    them in `sections`, in order; its `heading_path` is what they have in common, or that of its
    first character, as its chunker has it. `context` is what stands before the chunk and belongs to
    it as headings do: the header row of its table.
    """

    id: str
    collection: str
    document_id: str
    chunker_id: str
    level: ChunkLevel = "flat"
    parent_id: str | None = None
    ordinal: int = Field(ge=0)
    text: str
    token_count: int = Field(ge=0)
    element: ElementKind = "paragraph"
    sections: tuple[ChunkSection, ...] = ()
    context: str = ""

    def in_context(self, title: str | None) -> str:
        """The text as it is embedded and indexed; `title` is its document's."""
        return in_context(title, self.text, headings=self.heading_path, context=self.context)

    @property
    def document_ref(self) -> DocumentRef:
        """The name of its document."""
        return DocumentRef(self.collection, self.document_id)


def chunk_id(document: Document, chunker_id: str, level: ChunkLevel, span: Span) -> str:
    """The id of a span: the same for the same document, content, chunker, level and offsets."""
    return digest(document.collection, document.id, document.content_hash, chunker_id, level, *span)


CONTEXT_RULES = 2
"""Raised whenever `in_context` gives another text: what was indexed before is indexed again."""


def in_context(
    title: str | None, text: str, *, headings: Sequence[str] = (), context: str = ""
) -> str:
    """A chunk's text as it is embedded and indexed: under its document's title and its headings.

    A heading that is the title says it once. `context` is the chunk's own, of a table.
    """
    path = " > ".join(dict.fromkeys((*((title,) if title else ()), *headings)))
    return "\n\n".join((*filter(None, (path, context)), text))


Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]
"""One row per text."""
