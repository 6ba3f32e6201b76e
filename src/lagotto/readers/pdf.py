"""PDF files, read with PDFium: text without running headers, tables, page labels, titles."""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from itertools import chain, groupby
from typing import Any, NamedTuple

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from lagotto import errors
from lagotto.documents import Block, Heading, Page, Span, storable
from lagotto.errors import CorruptSourceError, EmptySourceError, EncryptedSourceError
from lagotto.readers import base
from lagotto.readers.base import Draft, HeadingMark, ReadOptions, Source, one_line, roman_number
from lagotto.readers.formats import Results, reader
from lagotto.readers.ocr import DPI, Ocr, PageImage, png

_JUNK = re.compile(
    r"\A(?:(?:microsoft|ms|libreoffice|openoffice|adobe|corel)\b.*? - |powerpoint presentation$"
    r"|about:|https?:|\(?(?:anonymous|unspecified|unknown|none|null)\)?$"
    r"|(?:untitled|unnamed|no title|title|document|new document|doc|print|printing|layout|slide"
    r"|presentation|book|sheet|workbook|scan|scanned document|image|img|file|temp|tmp|test"
    r"|cover|cover page|title page|table of contents|contents|index|final|draft|form)[\s_#-]*\d*$"
    r"|.*\.(?:docx?|docm|rtf|odt|pptx?|xlsx?|indd|qxp|qxd|pub|tex|dvi|ps|eps|pdf|html?|txt|md|wpd)$"
    r"|(?>\S*?\d{6})\S*+$"  # such as aapl-20230930: the name of a file or a register entry
    r"|(?=.*\d)[0-9a-f-]{16,}+$)",
    re.IGNORECASE,
)
"""How titles begin that programs, file names, placeholders and registers give."""
_LETTERS = re.compile(r"[^\W\d_]{2}")


def is_junk(title: str) -> bool:
    """Whether a title says nothing about the content: a number, a file name, a placeholder."""
    text = title.strip()
    return not _LETTERS.search(text) or bool(_JUNK.match(text))


def choose_title(declared: str | None, headings: Sequence[Heading], stem: str | None) -> str | None:
    """The title of a PDF: the one in its metadata if it is one, a heading above all, the file name.

    The first of several chapters is only the title of the file if nothing else is left.
    """
    tops = [heading.title for heading in headings if heading.level == 1]
    sole = tops[0] if len(tops) == 1 else None
    candidates = (declared, sole, stem, *tops[:1])
    return next((title for title in candidates if title and not is_junk(title)), stem)


FEWEST_ROWS = 3
FEWEST_CELLS = 2
LONGEST_LABEL = 80
"""Characters of a line inside a table without numbers: a wrapped label or a subheading."""

MOST_LABELS = 3
"""Such lines in a row; more of them are text between two tables."""

_CELL = re.compile(
    r"(?<![($€£¥+\-–—−])[($€£¥+\-–—−]*+\d[\d,.' ]*+[)%*]*+|[-–—−*]|n/?[am]", re.IGNORECASE
)
_SIGN = frozenset("$€£¥%()")


def tables(text: str, *, offset: int = 0) -> Iterator[Block]:
    """The tables of a page that starts at an offset; a part is a row, with its label before it."""
    rows: list[Span] = []
    labels: list[Span] = []
    start = offset
    for raw in [*text.split("\n"), "."]:  # a sentence ends the last table
        line = raw.strip()
        first = start + len(raw) - len(raw.lstrip())
        span = Span(first, first + len(line))
        start += len(raw) + 1
        if not line:
            continue
        if _is_row(line):
            rows.append(Span(labels[0].start if labels else span.start, span.end))
            labels = []
        elif len(line) <= LONGEST_LABEL and line[-1] not in ".!?;" and len(labels) < MOST_LABELS:
            labels.append(span)
        else:
            if len(rows) >= FEWEST_ROWS:
                end = rows[-1].end
                yield Block(start=rows[0].start, end=end, kind="table", parts=tuple(rows))
            rows, labels = [], []


def _is_row(line: str) -> bool:
    """Whether a line ends in at least two cells, of which one has a digit."""
    cells = 0
    has_digit = False
    for word in reversed(line.split()):
        if _CELL.fullmatch(word):
            cells += 1
            has_digit = has_digit or any(map(str.isdigit, word))
        elif not set(word) <= _SIGN:
            break
    return cells >= FEWEST_CELLS and has_digit


MARGIN = 0.075
"""The part of a page's height, at the top and at the bottom, where its running text is."""

FEWEST_PAGES = 3
SHARE = 1 / 3
"""A line runs if it is on this share of the pages: those of left and right pages often differ."""

MOST_LINES = 5
"""Lines of a margin that come into question."""

EDGE_LINES = 2
"""Lines at either end of a page that come into question where the margins have no running text."""

NEAR = (-2, -1, 1, 2)
"""Distances in pages at which a page number continues."""

_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"(?=.)(?:c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})", re.IGNORECASE)


class PageText(NamedTuple):
    """The text of a page, and the lines in its upper and its lower margin."""

    text: str
    top: tuple[str, ...] = ()
    bottom: tuple[str, ...] = ()


Form = tuple[str, tuple[int, ...]]
"""What repeats of a line: its words with `#` for numbers, and these."""


def _form(text: str) -> Form:
    line = one_line(text)
    if _ROMAN.fullmatch(line):
        return "#", (roman_number(line),)
    return _NUMBER.sub("#", line), tuple(int(number[:9]) for number in _NUMBER.findall(line))


class _Margins:
    """The lines in the margins of all pages; tells which of them run."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self._all_lines = [list(map(_form, (*page.top, *page.bottom))) for page in pages]
        counts = Counter(form for lines in self._all_lines for form in {form for form, _ in lines})
        most = max(FEWEST_PAGES, SHARE * len(pages))
        self._frequent = {form for form, count in counts.items() if count >= most}
        firsts = Counter(
            first
            for index, lines in enumerate(self._all_lines)
            for first in set().union(*(self._continued(index, line) for line in lines))
        )
        # what the first page would be numbered, by many of the pages: chapters number anew
        self._firsts = {first for first, count in firsts.items() if count >= FEWEST_PAGES}

    def running(self, index: int, texts: Sequence[str]) -> list[str]:
        """Those of `texts`, lines of the page with that index, that run."""
        return [
            text
            for text, (form, numbers) in zip(texts, map(_form, texts), strict=True)
            if form in self._frequent
            or self._continued(index, (form, numbers))
            or (form == "#" and numbers[0] in self.numbers(index))
        ]

    def numbers(self, index: int) -> set[int]:
        """What the page with that index may be numbered."""
        return {first + index for first in self._firsts}

    def _continued(self, index: int, line: Form) -> set[int]:
        """What the first page would be numbered by the numbers of the line that count pages."""
        return {
            before - index
            for distance in NEAR
            if 0 <= index + distance < len(self._all_lines)
            for form, numbers in self._all_lines[index + distance]
            if form == line[0]
            for before, after in zip(line[1], numbers, strict=True)
            if after - before == distance
        }


def without_running_text(pages: Sequence[PageText]) -> tuple[list[str], list[str]]:
    """The texts of the pages without running lines, and the distinct wordings of these.

    A line in a margin runs if it is on many of the pages, whatever its numbers, or if it is also on
    a page nearby and has a number that counts the pages, or if it is nothing but such a number.
    Where no line runs in the upper or in the lower margins, see `_without_edges`.
    """
    margins = _Margins(pages)
    wordings: dict[str, None] = {}
    texts = []
    ran: set[int] = set()
    for index, page in enumerate(pages):
        top, bottom = (margins.running(index, lines) for lines in (page.top, page.bottom))
        texts.append(_without(_without(page.text, top, 1), bottom, -1))
        ran |= {side for side, lines in ((1, top), (-1, bottom)) if lines}
        numbers = margins.numbers(index)
        page_wordings = (_wording(line, numbers) for line in (*top, *bottom))
        wordings.update(dict.fromkeys(filter(None, page_wordings)))
    for side in {1, -1} - ran:
        texts, repeated = _without_edges(texts, side)
        wordings.update(dict.fromkeys(repeated))
    return texts, list(wordings)


def _without_edges(texts: Sequence[str], side: int) -> tuple[list[str], list[str]]:
    """The texts without running lines at their beginnings (side 1) or ends (-1), and these lines.

    LaTeX sets headers and page numbers too far inside for a margin. A line at the edge runs if it
    is a number that counts the pages, on half of them, or if half of them have it word for word:
    that one stays on the first page, since it may be the head of a table.
    """
    edges = [_stripped_lines(text)[::side][:EDGE_LINES] for text in texts]
    most = max(FEWEST_PAGES, len(texts) / 2)
    lines = Counter(line for edge in edges for line in set(edge))
    repeated = {line for line, count in lines.items() if count >= most}
    firsts = Counter(first for index, edge in enumerate(edges) for first in _firsts(edge, index))
    numberings = {first for first, count in firsts.items() if count >= most}
    running_lines: dict[str, None] = {}
    stripped = []
    for index, (text, edge) in enumerate(zip(texts, edges, strict=True)):
        running = [
            line
            for line in edge
            if line in running_lines or not numberings.isdisjoint(_firsts([line], index))
        ]
        running_lines.update(dict.fromkeys(line for line in edge if line in repeated))
        bare = _without(text, running, side)
        stripped.append(bare if bare.strip() else text)
    return stripped, list(running_lines)


def _firsts(edge: Iterable[str], index: int) -> set[int]:
    """What the first page would be numbered, by the lines that are only a number."""
    lines = (_form(line.strip(" -–—|")) for line in edge)
    return {numbers[0] - index for form, numbers in lines if form == "#"}


def _without(text: str, running: Sequence[str], side: int) -> str:
    """The text without a line for each of `running`: the first such on side 1, the last on -1."""
    lines = text.split("\n")
    for line in running:
        if indexes := [at for at, one in enumerate(lines) if one.strip() == line]:
            del lines[indexes[0 if side > 0 else -1]]
    return "\n".join(lines).strip("\n")


def _wording(line: str, numbers: Collection[int]) -> str:
    """What a running line says besides the number of its page, one of `numbers`."""
    if _ROMAN.fullmatch(line):
        return ""
    counting = [match for match in _NUMBER.finditer(line) if int(match.group()[:9]) in numbers]
    if counting:
        line = line[: counting[-1].start()] + line[counting[-1].end() :]
    return one_line(line).strip(" |-–—/:,")


_DATE = re.compile(r"D?:?(\d{4}(?:\d\d){0,5})(?:([+-]\d\d)'?(\d\d)?|Z)?")


def parse_pdf_date(text: str | None) -> datetime | None:
    """Parse a PDF date such as `D:20240131120000+01'00'`; None if it is not one."""
    if not (match := _DATE.match(text or "")):
        return None
    digits, hours, minutes = match.groups()
    moment = digits + "0101000000"[len(digits) - len("YYYY") :]
    return base.parse_date(f"{moment[:8]}T{moment[8:]}{hours or '+00'}{minutes or '00'}")


PDFIUM = threading.Lock()
"""PDFium is not thread-safe, not even for different documents."""

MOST_NAMED = 20
MOST_PIXELS = 4_000
"""Along the longer side of a page."""
HYPHEN = "\x02"
SENTENCE_ENDS = ".!?:;…。！？"
METADATA = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}
INFORMATION = ("Title", "CreationDate", "ModDate", *METADATA)


@reader("pdf")
def read_pdf(source: Source, *, options: ReadOptions, ocr: Ocr | None = None) -> Results:
    """Read the text layer page by page, with a blank line between pages unless a sentence goes on.

    Running headers, footers and page numbers are left out; `metadata["running_text"]` has their
    wordings. Lines that end in columns of numbers are tables. Words hyphenated at a line end stay
    hyphenated. The title is the one in the file's metadata unless that is a placeholder, a number
    or the name of a file. A heading starts where the title of its outline entry is found on its
    page, or else at the start of the page, after the previous entry. Without an outline, headings
    are short lines in larger type than most of the text. A page that can't be read is yielded as an
    error after the document with all other pages.

    Pages without a text layer are read by `ocr`. Those that stay without text are yielded as a
    NoTextLayerError after the document; a PDF without any text raises it.
    """
    data = source.read(limit=options.max_bytes)
    with PDFIUM, _opened(data, label=source.label) as pdf:
        draft, broken = _draft(pdf, source, ocr)
    needs = "read with --ocr auto, which needs tesseract or ocrmypdf"
    remedy = "OCR found no text either" if ocr else needs
    if not draft.text.strip():
        reason = f"none of {len(draft.pages)} pages has a text layer; {remedy}"
        raise errors.NoTextLayerError(source.label, reason)
    yield draft.document(source, kind="pdf", options=options)
    if blank := [page.number for page in draft.pages if page.start == page.end]:
        named = ", ".join(map(str, blank[:MOST_NAMED])) + (", ..." * (len(blank) > MOST_NAMED))
        pages = f"page {named} has" if len(blank) == 1 else f"{len(blank)} pages ({named}) have"
        reason = f"{pages} no text layer and can't be found; {remedy}"
        yield errors.NoTextLayerError(source.label, reason)
    for number in broken:
        reason = f"page {number} is damaged and was left out; the other pages were read"
        yield CorruptSourceError(source.label, reason)


@contextmanager
def _opened(data: bytes, *, label: str) -> Iterator[pdfium.PdfDocument]:
    # PdfDocument(data) would report a file without pages as damaged.
    handle = pdfium_c.FPDF_LoadMemDocument64(data, len(data), None)
    if not handle:
        code = pdfium_c.FPDF_GetLastError()
        if not data.strip():
            raise EmptySourceError(label, "empty file; leave it out")
        if code == pdfium_c.FPDF_ERR_PASSWORD:
            raise EncryptedSourceError(label, "password-protected PDF; save it without a password")
        if code == pdfium_c.FPDF_ERR_SECURITY:
            reason = "PDF with unsupported encryption; save it without encryption"
            raise EncryptedSourceError(label, reason)
        raise CorruptSourceError(label, "damaged or truncated PDF, or not a PDF")
    with closing(pdfium.PdfDocument(handle)) as pdf:
        if len(pdf) == 0:
            raise EmptySourceError(label, "PDF without pages; leave it out")
        yield pdf


def _draft(pdf: pdfium.PdfDocument, source: Source, ocr: Ocr | None) -> tuple[Draft, list[int]]:
    """The content of the document, and the numbers of the pages that can't be read."""
    read = [_page_text(pdf, index) for index in range(len(pdf))]
    for index, blank in enumerate(read):
        if ocr and blank is not None and not blank.text.strip():
            text = ocr(PageImage(source.label, index + 1, _picture(pdf[index])))
            read[index] = PageText(storable(text).replace("\r\n", "\n").strip() or blank.text)
    texts, running = without_running_text([page or PageText("") for page in read])
    labels = [_metadata_line(pdf.get_page_label, index) for index in range(len(pdf))]
    text, pages = _joined_pages(texts, labels)
    outline = _marks(pdf, pages, text)
    marks = sorted(outline, key=lambda mark: mark.start) or _large_lines(pdf, pages, text)
    headings = base.sections(marks, end=len(text))
    information = {key: _metadata_line(pdf.get_metadata_value, key) for key in INFORMATION}
    metadata = {name: information[key] for key, name in METADATA.items() if information[key]}
    blocks = (tables(text[page.start : page.end], offset=page.start) for page in pages)
    draft = Draft(
        text=text,
        pages=tuple(pages),
        headings=headings,
        blocks=tuple(chain.from_iterable(blocks)),
        title=choose_title(information["Title"], headings, source.stem),
        metadata={**metadata, **({"running_text": running} if running else {})},
        created_at=parse_pdf_date(information["CreationDate"]),
        updated_at=parse_pdf_date(information["ModDate"]),
    )
    return draft, [number for number, page in enumerate(read, start=1) if page is None]


def _picture(page: pdfium.PdfPage) -> bytes:
    largest = max(1.0, *page.get_size())  # a huge page has fewer pixels
    bitmap = page.render(scale=min(DPI / 72, MOST_PIXELS / largest), grayscale=True)
    picture = png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride)
    bitmap.close()
    page.close()
    return picture


def _joined_pages(texts: Sequence[str], labels: Sequence[str | None]) -> tuple[str, list[Page]]:
    """One text of all pages, and their spans in it; a sentence may go on over a page break."""
    joined = ""
    pages: list[Page] = []
    for number, (text, label) in enumerate(zip(texts, labels, strict=True), start=1):
        if number > 1:
            end, begin = texts[number - 2].rstrip()[-1:], text.lstrip()[:1]
            goes_on = end in ",-" or (end not in SENTENCE_ENDS and begin.islower())
            joined += "\n" if end and begin and goes_on else base.GAP
        start = len(joined)
        joined += text
        pages.append(Page(start=start, end=len(joined), number=number, label=label))
    return joined, pages


def _page_text(pdf: pdfium.PdfDocument, index: int) -> PageText | None:
    try:
        page = pdf[index]
        chars = page.get_textpage()
        _, bottom, _, top = page.get_bbox()
        margin = MARGIN * (top - bottom)
        bounds: Any = ({}, {"bottom": top - margin}, {"top": bottom + margin})
        # PDFium marks a hyphen at a line end and drops the line end after it.
        texts = (chars.get_text_bounded(**box).replace(HYPHEN, "-\n") for box in bounds)
        text, above, below = (text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
        page.close()
    except pdfium.PdfiumError:
        return None
    return PageText(text, _stripped_lines(above)[:MOST_LINES], _stripped_lines(below)[-MOST_LINES:])


def _stripped_lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.split("\n") if line.strip())


def _metadata_line(read: Callable[..., str], *arguments: object) -> str | None:
    """A string of the file on one line; None if it is empty or not valid UTF-16."""
    with suppress(UnicodeDecodeError):
        return one_line(read(*arguments)) or None
    return None


def _marks(pdf: pdfium.PdfDocument, pages: Sequence[Page], text: str) -> Iterator[HeadingMark]:
    """The outline; a title that is not on its page starts it, or follows the one before."""
    after = 0
    for bookmark in pdf.get_toc():
        title = _metadata_line(bookmark.get_title)
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        if title and index is not None and index < len(pages):
            page = pages[index]
            match = re.compile(_spaced(title), re.IGNORECASE).search(text, page.start, page.end)
            start = after if page.start <= after <= page.end else page.start
            start = match.start() if match else start
            after = start + len(text[start : page.end].partition("\n")[0])
            yield HeadingMark(start=start, level=bookmark.level + 1, title=title)


LARGER = 1.1
"""Times the size of most of the text: that of a heading. Bold alone is as often a word in a list,
a table's head or a term that is defined."""
LONGEST_HEADING = 120
LINES_OF_HEADING = 2
FEWEST_HEADINGS = 2
"""Headings of a size: what occurs once is a title page, or a pull quote."""
MOST_LEVELS = 4
_LEADERS = re.compile(r"(?:\. ?){4}")


def _large_lines(pdf: pdfium.PdfDocument, pages: Sequence[Page], text: str) -> list[HeadingMark]:
    """The headings of a PDF without an outline, by the size of their type; a size is a level."""
    lines = [line for index in range(len(pages)) for line in _sized_lines(pdf, index)]
    letters: Counter[float] = Counter()
    for _, content, size in lines:
        letters[size] += len(content)
    if not letters:
        return []
    body = letters.most_common(1)[0][0]
    candidates: list[tuple[int, float, str]] = []
    for (index, size), group in groupby(lines, key=lambda line: (line[0], line[2])):
        parts = [line for _, line, _ in group]
        title = " ".join(parts)
        if size >= LARGER * body and len(parts) <= LINES_OF_HEADING and _is_heading(title):
            candidates.append((index, size, title))
    counts = Counter(size for _, size, _ in candidates)
    sizes = sorted((size for size in counts if counts[size] >= FEWEST_HEADINGS), reverse=True)
    levels = {size: min(level, MOST_LEVELS) for level, size in enumerate(sizes, start=1)}
    marks: list[HeadingMark] = []
    after = 0
    for index, size, title in candidates:
        words = re.compile(rf"^[^\S\n]*({_spaced(title)})[^\S\n]*$", re.MULTILINE)
        match = words.search(text, max(after, pages[index].start), pages[index].end)
        if match and size in levels:
            after = match.end()
            marks.append(HeadingMark(match.start(1), levels[size], title))
    return marks


def _is_heading(title: str) -> bool:
    """Whether a line in large type may be a heading; those of a table of contents are none."""
    is_short = len(title) <= LONGEST_HEADING and title[-1] not in ".;,"
    return is_short and bool(_LETTERS.search(title)) and not _LEADERS.search(title)


def _spaced(title: str) -> str:
    """A pattern for the words of a title with any white space between them."""
    return r"\s+".join(map(re.escape, title.split()))


def _sized_lines(pdf: pdfium.PdfDocument, index: int) -> Iterator[tuple[int, str, float]]:
    """The lines of a page and the size of their type, 0 if it differs between first and last."""
    with suppress(pdfium.PdfiumError):
        page = pdf[index]
        chars = page.get_textpage()
        text = chars.get_text_range() if chars.count_chars() else ""
        position = 0
        for line in text.split("\r\n"):
            if stripped := line.strip():
                first = position + _units(line[: line.index(stripped)])
                last = first + _units(stripped) - 1
                sizes = {_type_size(chars.raw, at) for at in (first, last)}
                yield index, one_line(stripped), sizes.pop() if len(sizes) == 1 else 0
            position += _units(line) + 2
        page.close()


def _units(text: str) -> int:
    """The length of a text as PDFium counts it, in UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _type_size(chars: Any, at: int) -> float:
    """The size of a character as it is shown, to half a point."""
    matrix = pdfium_c.FS_MATRIX()
    char = pdfium_c.FPDFText_GetCharIndexFromTextIndex(chars, at)
    if not pdfium_c.FPDFText_GetMatrix(chars, char, matrix):
        return 0
    scale = math.sqrt(abs(matrix.a * matrix.d - matrix.b * matrix.c))
    size: float = pdfium_c.FPDFText_GetFontSize(chars, char)
    return round(2 * scale * size) / 2
