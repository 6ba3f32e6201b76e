"""Build documents from what readers found: the rules shared by all formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from lagotto.documents import Block, Document, Heading, Page
from lagotto.errors import CorruptSourceError, EmptySourceError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.language import document_language

PDF_DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?|Z)?")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a reader found in a source; fields without a value stay empty.

    `detect` says whether to detect the language of title and text.
    """

    kind: str
    text: str
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    title: str | None = None
    summary: str | None = None
    language: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    detect: bool = True

    def document(self, source: Source, *, options: ReadOptions) -> Document:
        """The whole source as one document.

        The title is the caller's, the content's, the first top-level heading or the file's stem;
        `updated_at` is the content's or the modification time of the file.
        """
        first = next((heading.title for heading in self.headings if heading.level == 1), None)
        return self.assemble(
            source,
            options=options,
            title=source.title or self.title or first or source.stem,
            updated_at=self.updated_at or source.modified_at(),
        )

    def row(
        self, source: Source, *, options: ReadOptions, source_ref: str, id: str | None
    ) -> Document:
        """One row of the source as a document; without an `id` it is derived from `source_ref`.

        A row may be only a title.
        """
        fields: dict[str, object] = {"id": id} if id else {}
        return self.assemble(
            source, options=options, title=self.title, source_ref=source_ref, **fields
        )

    def assemble(self, source: Source, *, options: ReadOptions, **fields: object) -> Document:
        """The document with the given fields; EmptySourceError if there is no text in it."""
        is_title = "source_ref" in fields and bool(self.title)
        if not self.text.strip() and not is_title:
            raise EmptySourceError(source.label, "no text in it; leave it out")
        language = options.language or self.language
        if language is None and self.detect:
            language = document_language(source.title or self.title, self.text)
        found: dict[str, object] = {
            "kind": self.kind,
            "text": self.text,
            "pages": self.pages,
            "headings": self.headings,
            "blocks": self.blocks,
            "summary": self.summary,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }
        found |= {
            "collection": options.collection,
            "source": source.name,
            "language": language,
            "metadata": {**self.metadata, **options.metadata},
        }
        return _validated(found | fields, label=source.label)


def _validated(fields: Mapping[str, object], *, label: str) -> Document:
    try:
        return Document.model_validate(fields)
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise CorruptSourceError(label, f"{field}: {problem['msg']}") from exc
    except RecursionError as exc:
        raise CorruptSourceError(label, "the metadata is nested too deeply; flatten it") from exc


def parse_iso_date(written: str | None) -> datetime | None:
    """Parse an ISO 8601 date or time; None if it is not one."""
    try:
        return datetime.fromisoformat((written or "").strip())
    except ValueError:
        return None


def parse_pdf_date(written: str | None) -> datetime | None:
    """Parse a PDF date such as `D:20240131120000+01'00'`; None if it is not one."""
    match = PDF_DATE.match(written or "")
    if not match:
        return None
    year, month, day, hour, minute, second, sign, hours, minutes = match.groups()
    zone = f"{sign}{hours}:{minutes or '00'}" if sign else "+00:00"
    day_of_year = f"{year}-{month or '01'}-{day or '01'}"
    return parse_iso_date(f"{day_of_year}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}")
