"""Build the PDFs of the demo corpus from `scripts/demo_pdfs/*.md`.

    pip install reportlab
    python scripts/make_demo_pdfs.py

A source is a small subset of Markdown: front matter (title, author, subject, and whether the first
page is a cover, which has no number), then blocks with blank lines between them: headings of two
levels, paragraphs, lists, tables, and `---` for a new page. The same sources always give the same
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import B5
from reportlab.lib.styles import StyleSheet1, getSampleStyleSheet
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    Flowable,
    PageBreak,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
    TableStyle,
)

SCRIPTS = Path(__file__).parent
SOURCES = SCRIPTS / "demo_pdfs"
CORPUS = SCRIPTS.parent / "src" / "lagotto" / "demo" / "corpus"

LIST_ITEM = re.compile(r"(?:-|\d+\.) ")
TABLE_STYLE = TableStyle(
    [
        ("LINEBELOW", (0, 0), (-1, -1), 0.25, colors.grey),
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("TOPPADDING", (0, 0), (-1, -1), 1.5),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 1.5),
    ]
)


@dataclass(frozen=True, slots=True)
class Source:
    """One PDF to be: what its front matter says, and its blocks."""

    title: str
    author: str
    subject: str
    cover: bool
    blocks: tuple[str, ...]


def parse(text: str) -> Source:
    """The front matter and the blocks of a source."""
    _, head, body = text.split("---\n", maxsplit=2)
    fields = dict(line.split(": ", maxsplit=1) for line in head.splitlines())
    return Source(
        title=fields["title"],
        author=fields["author"],
        subject=fields["subject"],
        cover=fields["cover"] == "yes",
        blocks=tuple(body.strip().split("\n\n")),
    )


class Section(Paragraph):
    """A heading that also appears in the outline."""

    def __init__(self, title: str, *, depth: int, styles: StyleSheet1) -> None:
        super().__init__(escape(title), styles[f"Heading{depth}"])
        self.title = title
        self.depth = depth

    def draw(self) -> None:
        """Draw the heading and register its place."""
        key = f"{self.canv.getPageNumber()}-{self.title}"
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(self.title, key, level=self.depth - 1, closed=False)
        super().draw()


def flowables(block: str, *, styles: StyleSheet1) -> Iterator[Flowable]:
    """What a block looks like on the page."""
    if block == "---":
        yield PageBreak()
    elif block.startswith("#"):
        marks, title = block.split(" ", maxsplit=1)
        yield Section(title, depth=len(marks), styles=styles)
    elif block.startswith("|"):
        yield table(block, styles=styles)
        yield Spacer(0, 3 * mm)
    elif LIST_ITEM.match(block):
        for item in block.splitlines():
            marker, text = item.split(" ", maxsplit=1)
            bullet = "•" if marker == "-" else marker
            yield Paragraph(escape(text), styles["Bullet"], bulletText=bullet)
        yield Spacer(0, 2 * mm)
    else:
        yield Paragraph(escape(block), styles["BodyText"])


def table(block: str, *, styles: StyleSheet1) -> Table:
    """A table whose first row is repeated on every page; the row of dashes is left out."""
    header, _, *rows = (
        [Paragraph(escape(cell.strip()), styles["Normal"]) for cell in line.strip("|").split("|")]
        for line in block.splitlines()
    )
    return Table([header, *rows], style=TABLE_STYLE, repeatRows=1, hAlign="LEFT")


def stylesheet() -> StyleSheet1:
    """ReportLab's sample styles in the sizes of a small handbook."""
    styles = getSampleStyleSheet()
    for name in ("Normal", "BodyText", "Bullet"):
        styles[name].fontSize = styles[name].bulletFontSize = 8.5
        styles[name].leading = 11.5
    styles["Bullet"].leftIndent = 12
    styles["Heading1"].fontSize = 14
    styles["Heading1"].spaceBefore = 10
    styles["Heading2"].fontSize = 10
    return styles


def build(source: Source, target: Path) -> None:
    """Write the PDF with its outline, page labels and footers."""
    styles = stylesheet()

    def footer(canvas: Canvas, document: SimpleDocTemplate) -> None:
        number = canvas.getPageNumber() - source.cover
        if number == 0:
            canvas.addPageLabel(0, prefix="Cover")
        if number == 1:
            canvas.addPageLabel(int(source.cover), style="ARABIC", start=1)
        canvas.setFont("Helvetica", 7)
        canvas.drawString(document.leftMargin, 8 * mm, source.title)
        right = document.leftMargin + document.width
        canvas.drawRightString(right, 8 * mm, str(number or ""))

    document = SimpleDocTemplate(
        str(target), pagesize=B5, invariant=1, title=source.title, author=source.author,
        subject=source.subject, leftMargin=14 * mm, rightMargin=14 * mm,
        topMargin=12 * mm, bottomMargin=14 * mm,
    )  # fmt: skip
    story = [part for block in source.blocks for part in flowables(block, styles=styles)]
    document.build(story, onFirstPage=footer, onLaterPages=footer)


def main() -> None:
    """Build every source."""
    for path in sorted(SOURCES.glob("*.md")):
        build(parse(path.read_text(encoding="utf-8")), CORPUS / f"{path.stem}.pdf")


if __name__ == "__main__":
    main()
