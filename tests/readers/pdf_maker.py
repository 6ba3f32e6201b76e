"""Makes small PDF files: pages of lines, an outline, page labels, document information."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fpdf import FPDF
from pypdf import PdfReader, PdfWriter
from pypdf.constants import PageLabelStyle
from pypdf.generic import IndirectObject


@dataclass(frozen=True)
class Bookmark:
    """An entry of the outline, `page` counted from 0, with the entries below it."""

    title: str
    page: int
    below: tuple[Bookmark, ...] = ()


def make_pdf(
    pages: Sequence[Sequence[str]],
    *,
    outline: Sequence[Bookmark] = (),
    info: Mapping[str, str] | None = None,
    labels: Mapping[int, str] | None = None,
) -> bytes:
    """A PDF with one page per list of lines; `labels` are styles of page labels by first page."""
    writer = PdfWriter(clone_from=_pages(pages) if pages else None)
    _add(writer, outline, parent=None)
    writer.metadata = {f"/{name}": value for name, value in (info or {}).items()}
    for page, style in (labels or {}).items():
        writer.set_page_label(page_index_from=page, page_index_to=page, style=PageLabelStyle(style))
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def _pages(pages: Sequence[Sequence[str]]) -> PdfReader:
    pdf = FPDF(unit="pt", format="letter")
    pdf.set_font("helvetica", size=12)
    for lines in pages:
        pdf.add_page()
        for number, line in enumerate(lines):
            pdf.text(72, 72 + 14 * number, line)
    return PdfReader(io.BytesIO(bytes(pdf.output())))


def _add(
    writer: PdfWriter, bookmarks: Sequence[Bookmark], *, parent: IndirectObject | None
) -> None:
    for bookmark in bookmarks:
        entry = writer.add_outline_item(
            title=bookmark.title, page_number=bookmark.page, parent=parent
        )
        _add(writer, bookmark.below, parent=entry)
