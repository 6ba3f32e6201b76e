from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lagotto.errors import CorruptSourceError, SourceTooLargeError, UnsupportedFormatError
from lagotto.readers import ReadOptions
from lagotto.readers.formats import OLE_MAGIC
from tests.readers.samples import docx_body, make_docx, make_zip, only, texts


def paragraph(text: str, settings: str = "") -> str:
    return f"<w:p><w:pPr>{settings}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_text_structure_and_properties() -> None:
    document = only(make_docx(), "cats.docx")
    assert document.text == (
        "Cats\n\nCats sleep a lot.\n\nFacts\n\ncat | hours\nTom | 16\nKit | 14\n\n"
        "- eat\n- sleep\n  - deeply\n\nThe end."
    )
    assert [(h.title, h.level) for h in document.headings] == [("Cats", 1), ("Facts", 2)]
    assert texts(document, "table") == ["cat | hours", "Tom | 16", "Kit | 14"]
    assert texts(document, "list") == ["- eat", "- sleep\n  - deeply"]
    assert (document.title, document.metadata["author"]) == ("On cats", "Ann")
    assert document.created_at == datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_changes_are_accepted() -> None:
    body = (
        "<w:p><w:r><w:t>new </w:t></w:r><w:ins><w:r><w:t>words</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom></w:p>"
    )
    assert only(docx_body(body), "x.docx").text == "new words"


def test_content_controls_tabs_and_breaks() -> None:
    body = (
        f"<w:sdt><w:sdtContent>{paragraph('inside')}</w:sdtContent></w:sdt>"
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>"
        "<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>"
    )
    assert only(docx_body(body), "x.docx").text == "inside\n\na\tb\nc"


def test_outline_levels_and_numbering_without_styles() -> None:
    numbered = '<w:numPr><w:ilvl w:val="{}"/><w:numId w:val="{}"/></w:numPr>'
    body = (
        paragraph("Top", '<w:outlineLvl w:val="0"/>' + numbered.format(0, 1))
        + paragraph("one", numbered.format(0, 1))
        + paragraph("deeper", numbered.format(2, 1))
        + paragraph("body", '<w:outlineLvl w:val="9"/>')
        + paragraph("plain", numbered.format(0, 0))
    )
    document = only(docx_body(body), "x.docx")
    assert [(h.title, h.level) for h in document.headings] == [("Top", 1)]
    assert texts(document, "list") == ["- one\n    - deeper"]
    assert document.text.endswith("body\n\nplain")


def test_nested_table_is_text_of_its_cell() -> None:
    inner = (
        f"<w:tbl><w:tr><w:tc>{paragraph('in')}</w:tc><w:tc>{paragraph('ner')}</w:tc></w:tr></w:tbl>"
    )
    body = f"<w:tbl><w:tr><w:tc>{inner}</w:tc><w:tc>{paragraph('x')}</w:tc></w:tr></w:tbl>"
    assert texts(only(docx_body(body), "x.docx"), "table") == ["in ner | x"]


def test_only_text_parts_are_unpacked() -> None:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = (
        f'<w:document xmlns:w="{namespace}"><w:body>{paragraph("text")}</w:body></w:document>'
    )
    package = make_zip({"word/document.xml": document, "word/media/bomb.bin": bytes(50_000_000)})
    assert only(package, "x.docx", ReadOptions(max_bytes=10_000)).text == "text"
    body = docx_body(paragraph("text " * 10_000))
    with pytest.raises(SourceTooLargeError, match="unpacks to"):
        only(body, "x.docx", ReadOptions(max_bytes=10_000))


def test_old_word_files_and_xml_that_breaks_off() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"save it as \.docx"):
        only(OLE_MAGIC + bytes(600), "x.docx")
    with pytest.raises(CorruptSourceError, match="XML"):
        only(make_zip({"word/document.xml": "<w:document>"}), "x.docx")
