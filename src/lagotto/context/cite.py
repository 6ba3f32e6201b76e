"""Citations that resolve: from a marker in a pack back to the span of the document.

A citation's key says it all in one word: `collection/document_id#start-end~check`, with both names
percent-encoded. `check` is a hash of the cited text, so that a citation of a document which has
changed since is found out; a key without it is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from pydantic import Field

from lagotto.chunkers.structure import Structure
from lagotto.context.passages import PackPassage, covering
from lagotto.documents import ChunkSection, Document, Location, Span, digest
from lagotto.errors import CitationError
from lagotto.results import RetrievalResult, cited_row, format_citation, named_document

DocumentOf = Callable[[str, str], Awaitable[Document | None]]
"""A document by collection and id, None if there is none."""

SectionPaths = tuple[tuple[str, ...], ...]
"""The headings of each section that a passage reaches into, if there are several."""

_KEY = re.compile(r"\A([^/#\s]++)/([^/#\s]++)#([0-9]{1,18})-([0-9]{1,18})(?:~([0-9a-f]{8}))?")


class CitationKey(NamedTuple):
    """The target of a citation; `str` and `parse` convert it to one word and back."""

    collection: str
    document_id: str
    start: int
    end: int
    check: str = ""

    def __str__(self) -> str:
        # Surrogates, which no document's name has, are replaced.
        collection, document_id = (quote(name, safe="", errors="replace") for name in self[:2])
        check = f"~{self.check}" if self.check else ""
        return f"{collection}/{document_id}#{self.start}-{self.end}{check}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that is written like this; CitationError if there is none."""
        match = _KEY.fullmatch(text.strip())
        if match is None:
            raise CitationError(
                f"{text!r} is no citation; one looks like collection/document_id#120-480"
            )
        collection, document_id, start, end, check = match.groups()
        return cls(unquote(collection), unquote(document_id), int(start), int(end), check or "")


class Citation(Location):
    """The source of a passage in a pack: a span of a document, with a label for people.

    As a string it is its label, `Doc: ... | Page: ... | Section: ...`.
    """

    marker: int = Field(ge=1)
    key: str
    label: str
    collection: str
    document_id: str
    chunk_ids: tuple[str, ...]
    sections: SectionPaths = ()
    also_in: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.label


class CitedPassage(Location):
    """What a citation resolves to: the exact text and its location."""

    key: str
    label: str
    collection: str
    document_id: str
    document_title: str | None
    document_source: str
    text: str
    sections: SectionPaths = ()


def cite(passage: PackPassage, *, marker: int) -> Citation:
    chunk = passage.lead.chunk
    check = digest(passage.text)[:8]
    key = CitationKey(*chunk.document_ref, passage.start, passage.end, check)
    return Citation(
        marker=marker,
        key=str(key),
        label=passage.label,
        collection=chunk.collection,
        document_id=chunk.document_id,
        chunk_ids=tuple(piece.chunk.id for piece in passage.pieces),
        sections=_paths(passage.sections),
        also_in=passage.also_in,
        **dict(passage.location),
    )


def key_of(hit: RetrievalResult) -> str:
    """The key by which the passage of a hit is cited; that of a mere title has an empty span."""
    text = hit.content if hit.end > hit.start else ""
    return str(key_of_text(*hit.document_ref, hit.start, text))


def key_of_text(collection: str, document_id: str, start: int, text: str) -> CitationKey:
    """The key of a text that starts at an offset of its document."""
    return CitationKey(collection, document_id, start, start + len(text), digest(text)[:8])


async def resolve(citation: Citation | str, *, document_of: DocumentOf) -> CitedPassage:
    """The text that a citation, or its key, stands for; CitationError if it is gone or changed."""
    key = CitationKey.parse(citation.key if isinstance(citation, Citation) else citation)
    document = await document_of(key.collection, key.document_id)
    if document is None:
        raise CitationError(f"{key}: there is no such document; it may have been removed since")
    return cited(document, key)


def cited(document: Document, key: CitationKey) -> CitedPassage:
    """The span of its document that a key names, with its pages and headings.

    The empty span of a document that is only a title stands for the title.
    """
    text = document.text[key.start : key.end]
    is_title = document.is_only_title and key.end == 0
    if not (text.strip() or is_title) or key.end > len(document.text):
        raise CitationError(
            f"{key}: there is no text there; the document has {len(document.text)} characters"
        )
    if key.check and key.check != digest(text)[:8]:
        raise CitationError(
            f"{key}: the document has changed since it was cited; search again, or leave out "
            f"~{key.check} to see the current text at these offsets"
        )
    described = Structure(document).describe(Span(key.start, key.end))
    for name in ("element", "context"):
        described.pop(name, None)
    if sections := described.pop("sections"):
        described |= covering(sections, key.end).location_fields()
    if row := cited_row(document.kind, document.metadata):
        described["row_range"] = row
    location = Location(start=key.start, end=key.end, **described)
    name = named_document(document.title, document.source, document.kind, document.metadata)
    return CitedPassage(
        key=str(key),
        label=format_citation(name or document.id, location),
        collection=document.collection,
        document_id=document.id,
        document_title=document.title,
        document_source=document.source,
        text=text,
        sections=_paths(sections),
        **dict(location),
    )


def _paths(sections: Iterable[ChunkSection]) -> SectionPaths:
    """The headings of several sections; one is known by the location's own."""
    paths = tuple(dict.fromkeys(section.heading_path for section in sections))
    return paths if len(paths) > 1 else ()
