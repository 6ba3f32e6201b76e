"""Office files and books made on the spot."""

from __future__ import annotations

import io
from datetime import datetime

import openpyxl
import pptx

from tests.readers.samples import make_zip

ODF = "urn:oasis:names:tc:opendocument:xmlns"
ODT_CONTENT = f"""<?xml version="1.0"?>
<office:document-content xmlns:office="{ODF}:office:1.0" xmlns:text="{ODF}:text:1.0"
  xmlns:table="{ODF}:table:1.0" xmlns:draw="{ODF}:drawing:1.0">
<office:body><office:text>
<text:tracked-changes><text:p>Gone.</text:p></text:tracked-changes>
<text:h text:outline-level="1">Cats</text:h>
<text:p>Cats sleep<text:s text:c="3"/>a <text:span>lot</text:span><text:note><text:note-body>
<text:p>A footnote.</text:p></text:note-body></text:note>,<text:line-break/>really.</text:p>
<text:h text:outline-level="2">Facts</text:h>
<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>cat</text:p>
</table:table-cell><table:table-cell><text:p>hours</text:p></table:table-cell></table:table-row>
</table:table-header-rows><table:table-row><table:table-cell><text:p>Tom</text:p></table:table-cell>
<table:table-cell><text:p>16</text:p></table:table-cell></table:table-row></table:table>
<text:list><text:list-item><text:p>eat</text:p></text:list-item><text:list-item><text:p>sleep</text:p>
<text:list><text:list-item><text:p>deeply</text:p></text:list-item></text:list></text:list-item>
</text:list>
<text:p><draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame></text:p>
</office:text></office:body></office:document-content>"""
ODT_META = f"""<office:document-meta xmlns:office="{ODF}:office:1.0" xmlns:meta="{ODF}:meta:1.0"
  xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta><dc:title>On cats</dc:title>
<meta:initial-creator>Ann</meta:initial-creator><meta:keyword>cats</meta:keyword>
<meta:keyword>sleep</meta:keyword><meta:creation-date>2024-05-06T07:08:09</meta:creation-date>
</office:meta></office:document-meta>"""


def make_odt(content: str = ODT_CONTENT) -> bytes:
    """An OpenDocument text."""
    kind = "application/vnd.oasis.opendocument.text"
    return make_zip({"mimetype": kind, "content.xml": content, "meta.xml": ODT_META})


def make_epub(chapters: tuple[str, ...] = (), *, extra: dict[str, str] | None = None) -> bytes:
    """A book with these chapters as bodies of XHTML pages."""
    bodies = chapters or (
        "<h1>Cats</h1><p>Cats sleep a lot.</p>",
        "<h1>Facts</h1><table><tr><th>cat</th><th>hours</th></tr><tr><td>Tom</td><td>16</td></tr>"
        "</table><ul><li>eat</li><li>sleep</li></ul>",
    )
    numbers = range(1, len(bodies) + 1)
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in numbers
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    package = f"""<package xmlns="http://www.idpf.org/2007/opf" version="3.0">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>On cats</dc:title>
<dc:creator>Ann</dc:creator><dc:language>en-GB</dc:language><dc:date>2024-05-06</dc:date></metadata>
<manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
{items}</manifest><spine><itemref idref="nav"/>{spine}</spine></package>"""
    container = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>"""
    pages = {
        f"OEBPS/text/c {n}.xhtml": f"<html><head><title>t</title></head><body>{body}</body></html>"
        for n, body in zip(numbers, bodies, strict=True)
    }
    return make_zip(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/content.opf": package,
            "OEBPS/nav.xhtml": "<html><body><nav>Contents</nav></body></html>",
            **pages,
            **(extra or {}),
        }
    )


def make_pptx() -> bytes:
    """A presentation: a title slide, one with bullet points and notes, one with a table."""
    file = pptx.Presentation()
    file.core_properties.title = "On cats"
    file.core_properties.author = "Ann"
    opening = file.slides.add_slide(file.slide_layouts[0])
    opening.shapes.title.text = "Cats"
    opening.placeholders[1].text = "A talk"
    points = file.slides.add_slide(file.slide_layouts[1])
    points.shapes.title.text = "What they do"
    frame = points.placeholders[1].text_frame
    frame.text = "eat"
    for text, level in (("sleep", 0), ("deeply", 1)):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    points.notes_slide.notes_text_frame.text = "Speak slowly."
    facts = file.slides.add_slide(file.slide_layouts[6])
    table = facts.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for row, values in enumerate((("cat", "hours"), ("Tom", "16"))):
        for column, text in enumerate(values):
            table.cell(row, column).text = text
    stream = io.BytesIO()
    file.save(stream)
    return stream.getvalue()


def make_xlsx() -> bytes:
    """A workbook with two sheets of several types of values."""
    file = openpyxl.Workbook()
    file.properties.title = "Cats in numbers"
    file.properties.creator = "Ann"
    first = file.active
    assert first is not None
    first.title = "Hours"
    first.append(["cat", "hours", None, "born", "indoors"])
    first.append(["Tom", 16, None, datetime(2019, 5, 6), True])
    first.append([None, None])
    first.append(["Kit", 0.1 + 0.2, None, datetime(2020, 1, 2, 3, 4, 5), False])
    second = file.create_sheet("Notes")
    second["B3"] = "Two\nlines"
    file.create_sheet("Empty")
    stream = io.BytesIO()
    file.save(stream)
    return stream.getvalue()
