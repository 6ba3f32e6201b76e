"""PDF files, read with PDFium: the text of each page, page labels, the outline as headings."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from lagotto.documents import Block, Document, Page, Span, storable
from lagotto.errors import (
    CorruptSourceError,
    EmptySourceError,
    EncryptedSourceError,
    NoTextLayerError,
    ReadError,
)
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.builder import GAP, HeadingMark, one_line, sections
from lagotto.readers.draft import Draft, parse_pdf_date
from lagotto.readers.formats import SUFFIXES
from lagotto.readers.ocr import DPI, Ocr, PageImage, png
from lagotto.readers.pdf.running_text import MARGIN, MOST_LINES, PageText, without_running_text
from lagotto.readers.pdf.tables import tables
from lagotto.readers.pdf.titles import choose_title

PDFIUM = threading.Lock()
"""PDFium is not thread-safe, not even for different documents."""

MOST_NAMED = 20
MOST_PIXELS = 4_000
"""Along the longer side of a page."""
HYPHEN = "\x02"
SENTENCE_ENDS = ".!?:;…。！？"
METADATA = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}
INFORMATION = ("Title", "CreationDate", "ModDate", *METADATA)


class PdfReader:
    """Reads the text layer page by page, with a blank line between pages unless a sentence goes on.

    Running headers, footers and page numbers are left out; `metadata["running_text"]` has their
    wordings. Lines that end in columns of numbers are tables. Words hyphenated at a line end stay
    hyphenated. The title is the one in the file's metadata unless that is a placeholder, a number
    or the name of a file. A heading starts where the title of its outline
    entry is found on its page, or else at the start of the page, after the previous entry. A page
    that can't be read is yielded as an error after the document with all other pages.

    Pages without a text layer are read by `ocr`. Those that stay without text are yielded as a
    NoTextLayerError after the document; a PDF without any text raises it.
    """

    def __init__(self, *, ocr: Ocr | None = None) -> None:
        self._ocr = ocr

    kind = "pdf"
    suffixes = SUFFIXES["pdf"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        data = source.read(limit=options.max_bytes)
        with PDFIUM, _opened(data, label=source.label) as pdf:
            recognised = _recognised(pdf, self._ocr, source) if self._ocr else {}
            draft, broken = _draft(pdf, recognised, stem=source.stem)
        remedy = "OCR found no text either" if self._ocr else "read with --ocr auto"
        if not draft.text.strip():
            raise NoTextLayerError(
                source.label, f"none of {len(draft.pages)} pages has a text layer; {remedy}"
            )
        yield draft.document(source, options=options)
        if blank := [page.number for page in draft.pages if page.start == page.end]:
            named = ", ".join(map(str, blank[:MOST_NAMED])) + (", ..." * (len(blank) > MOST_NAMED))
            pages = f"page {named} has" if len(blank) == 1 else f"{len(blank)} pages ({named}) have"
            yield NoTextLayerError(
                source.label, f"{pages} no text layer and can't be found; {remedy}"
            )
        for number in broken:
            yield CorruptSourceError(
                source.label,
                f"page {number} is damaged and was left out; the other pages were read",
            )


@contextmanager
def _opened(data: bytes, *, label: str) -> Iterator[pdfium.PdfDocument]:
    # PdfDocument(data) would report a file without pages as damaged.
    handle = pdfium_c.FPDF_LoadMemDocument64(data, len(data), None)
    if not handle:
        _refuse(data, label, pdfium_c.FPDF_GetLastError())
    pdf = pdfium.PdfDocument(handle)
    try:
        if len(pdf) == 0:
            raise EmptySourceError(label, "PDF without pages; leave it out")
        yield pdf
    finally:
        pdf.close()


def _refuse(data: bytes, label: str, code: int) -> NoReturn:
    if not data.strip():
        raise EmptySourceError(label, "empty file; leave it out")
    if code == pdfium_c.FPDF_ERR_PASSWORD:
        raise EncryptedSourceError(label, "password-protected PDF; save it without a password")
    if code == pdfium_c.FPDF_ERR_SECURITY:
        raise EncryptedSourceError(
            label, "PDF with unsupported encryption; save it without encryption"
        )
    raise CorruptSourceError(label, "damaged or truncated PDF, or not a PDF")


def _recognised(pdf: pdfium.PdfDocument, ocr: Ocr, source: Source) -> dict[int, str]:
    """The texts that OCR gives for pages without any, by index."""
    found = {}
    for index in range(len(pdf)):
        page = _page_text(pdf, index)
        if page is not None and not page.text.strip():
            image = PageImage(source.label, index + 1, _picture(pdf, index))
            found[index] = storable(ocr(image)).replace("\r\n", "\n").strip()
    return found


def _picture(pdf: pdfium.PdfDocument, index: int) -> bytes:
    """A page as PNG; a huge one with fewer pixels."""
    page = pdf[index]
    largest = max(1.0, *page.get_size())
    bitmap = page.render(scale=min(DPI / 72, MOST_PIXELS / largest), grayscale=True)
    picture = png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride)
    bitmap.close()
    page.close()
    return picture


def _draft(
    pdf: pdfium.PdfDocument, recognised: Mapping[int, str], *, stem: str | None
) -> tuple[Draft, list[int]]:
    """The content of the document, and the numbers of the pages that can't be read."""
    read = [
        PageText(recognised[index]) if recognised.get(index) else _page_text(pdf, index)
        for index in range(len(pdf))
    ]
    texts, running = without_running_text([page or PageText("") for page in read])
    labels = [_written(pdf.get_page_label, index) for index in range(len(pdf))]
    text, pages = joined_pages(texts, labels)
    marks = sorted(_marks(pdf, pages, text), key=lambda mark: mark.start)
    headings = sections(marks, end=len(text))
    information = {key: _written(pdf.get_metadata_value, key) for key in INFORMATION}
    metadata = {name: information[key] for key, name in METADATA.items() if information[key]}
    draft = Draft(
        kind=PdfReader.kind,
        text=text,
        pages=tuple(pages),
        headings=headings,
        blocks=tuple(_tables(pages, text)),
        title=choose_title(information["Title"], headings, stem),
        metadata={**metadata, **({"running_text": running} if running else {})},
        created_at=parse_pdf_date(information["CreationDate"]),
        updated_at=parse_pdf_date(information["ModDate"]),
    )
    return draft, [number for number, page in enumerate(read, start=1) if page is None]


def joined_pages(texts: Sequence[str], labels: Sequence[str | None]) -> tuple[str, list[Page]]:
    """One text of all pages, and their spans in it."""
    pieces: list[str] = []
    pages: list[Page] = []
    position = 0
    for number, (text, label) in enumerate(zip(texts, labels, strict=True), start=1):
        if number > 1:
            pieces.append("\n" if _goes_on(texts[number - 2], text) else GAP)
            position += len(pieces[-1])
        pieces.append(text)
        pages.append(Page(start=position, end=position + len(text), number=number, label=label))
        position += len(text)
    return "".join(pieces), pages


def _goes_on(before: str, after: str) -> bool:
    """Whether a sentence goes on over a page break."""
    end, start = before.rstrip()[-1:], after.lstrip()[:1]
    return bool(end and start) and (end in ",-" or (end not in SENTENCE_ENDS and start.islower()))


def _tables(pages: Sequence[Page], text: str) -> Iterator[Block]:
    for page in pages:
        for table in tables(text[page.start : page.end]):
            parts = tuple(
                Span(part.start + page.start, part.end + page.start) for part in table.parts
            )
            yield Block(start=parts[0].start, end=parts[-1].end, kind="table", parts=parts)


def _page_text(pdf: pdfium.PdfDocument, index: int) -> PageText | None:
    try:
        page = pdf[index]
        chars = page.get_textpage()
        _, bottom, _, top = page.get_bbox()
        margin = MARGIN * (top - bottom)
        text, above, below = (
            _clean(chars.get_text_bounded(**bounds))
            for bounds in ({}, {"bottom": top - margin}, {"top": bottom + margin})
        )
        page.close()
    except pdfium.PdfiumError:
        return None
    return PageText(text, _lines(above)[:MOST_LINES], _lines(below)[-MOST_LINES:])


def _clean(text: str) -> str:
    # PDFium marks a hyphen at a line end and drops the line end after it.
    return text.replace(HYPHEN, "-\n").replace("\r\n", "\n").replace("\r", "\n")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def _written(read: Callable[..., str], *arguments: object) -> str | None:
    """A string of the file on one line; None if it is empty or not valid UTF-16."""
    try:
        return one_line(read(*arguments)) or None
    except UnicodeDecodeError:
        return None


def _marks(pdf: pdfium.PdfDocument, pages: Sequence[Page], text: str) -> Iterator[HeadingMark]:
    after = 0
    for bookmark in pdf.get_toc():
        title = _written(bookmark.get_title)
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        if title and index is not None and index < len(pages):
            start = _find(title, pages[index], text, after=after)
            after = start + len(text[start : pages[index].end].partition("\n")[0])
            yield HeadingMark(start=start, level=bookmark.level + 1, title=title)


def _find(title: str, page: Page, text: str, *, after: int) -> int:
    """The offset of a title on its page, or else of the page or the end of the last title."""
    pattern = re.compile(r"\s+".join(map(re.escape, title.split())), re.IGNORECASE)
    found = pattern.search(text, page.start, page.end)
    if found:
        return found.start()
    return after if page.start <= after <= page.end else page.start
