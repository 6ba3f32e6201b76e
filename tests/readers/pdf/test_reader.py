"""A filing: what is left out of its text, what its tables are, and how it is cut."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fpdf import FPDF

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.embedders.onnx import minilm
from tests.readers.samples import only

ROWS = (
    ("Net sales", 383_285, 394_328),
    ("Cost of sales", 214_137, 223_546),
    ("Net income", 96, 99),
)
PROSE = "Sales of the company grew in every quarter of the year, although costs grew as well. "


class Filing(FPDF):
    """Pages as in an annual report."""

    def header(self) -> None:
        self.set_font("Helvetica", size=8)
        self.set_y(30)
        self.cell(0, 10, "Table of Contents")
        self.set_y(72)

    def footer(self) -> None:
        self.set_y(-42)
        self.cell(0, 10, f"Acme Corp. | 2022 Form 10-K | {self.page_no()}", align="C")


@pytest.fixture(scope="module")
def filing() -> Document:
    pdf = Filing(format="letter", unit="pt")
    pdf.set_margins(72, 72, 72)
    pdf.set_auto_page_break(True, margin=72)
    pdf.set_title("0000064803-23-000009")
    pdf.set_creation_date(datetime(2023, 2, 1, tzinfo=UTC))
    pdf.add_page()
    for number in range(6):
        pdf.set_font("Helvetica", size=10)
        pdf.multi_cell(0, 13, f"Part {number}. " + PROSE * 40, new_x="LMARGIN", new_y="NEXT")
        for label, *cells in ROWS:
            pdf.cell(260, 14, label)
            for cell in cells:
                pdf.cell(60, 14, f"{cell:,}", align="R")
            pdf.ln(14)
    return only(bytes(pdf.output()), "reports/acme-2022.pdf")


def test_a_filing_has_no_running_text(filing: Document) -> None:
    assert len(filing.pages) >= 5
    assert "Table of Contents" not in filing.text
    assert "Form 10-K" not in filing.text
    assert filing.metadata["running_text"] == ["Table of Contents", "Acme Corp. | 2022 Form 10-K"]
    assert filing.title == "acme-2022"


def test_sentences_go_on_over_pages(filing: Document) -> None:
    words = " ".join(filing.text.split())
    assert words.count(PROSE.strip()) == 6 * 40


def test_chunks_of_a_filing_begin_at_sentences_and_rows(filing: Document) -> None:
    chunks = CHUNKERS.create("section", tokenizer=minilm().tokenizer).chunk(filing)
    starts = {" ".join(chunk.text.split())[:5] for chunk in chunks}
    assert starts <= {"Sales", "Part ", "Net s", "Cost ", "Net i"}
    assert all(filing.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)


def test_the_rows_of_a_table_stay_together(filing: Document) -> None:
    assert len(filing.blocks) >= 5  # one goes on over a page
    rows = [filing.text[part.start : part.end] for part in filing.blocks[0].parts]
    assert rows == [
        "Net sales 383,285 394,328",
        "Cost of sales 214,137 223,546",
        "Net income 96 99",
    ]
    chunks = CHUNKERS.create("section:24/4", tokenizer=minilm().tokenizer).chunk(filing)
    for block in filing.blocks:
        for part in block.parts:
            row = filing.text[part.start : part.end]
            assert any(row in chunk.text for chunk in chunks)
