"""PDF files: their text and structure, and what a filing of a company becomes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from fpdf import FPDF

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document, Heading
from lagotto.embedders.onnx import MINILM
from lagotto.errors import EmptySourceError, EncryptedSourceError
from lagotto.readers.pdf import (
    PageText,
    choose_title,
    is_junk,
    parse_pdf_date,
    tables,
    without_running_text,
)
from tests.readers.pdf_maker import Bookmark, make_pdf
from tests.readers.samples import PDF, encrypted, only


def test_pages_and_outline_gives_headings() -> None:
    document = only(PDF, "cats.pdf")
    assert document.text == "Cats\nCats sleep a lot.\n\nFacts\nTom sleeps 16 hours."
    pages = [(p.number, p.label, document.text[p.start : p.end]) for p in document.pages]
    assert pages == [
        (1, "i", "Cats\nCats sleep a lot."),
        (2, "1", "Facts\nTom sleeps 16 hours."),
    ]
    second = document.pages[1].start
    behind = second + len("Facts")  # "Gone" is nowhere on its page
    assert [(h.title, h.level, h.start, h.end) for h in document.headings] == [
        ("Cats", 1, 0, behind),
        ("Facts", 2, second, behind),
        ("Gone", 1, behind, len(document.text)),
    ]


def test_a_heading_starts_where_its_title_stands() -> None:
    lines = ["end of before", "A  long", "title", "text"]
    [heading] = only(make_pdf([lines], outline=[Bookmark("a LONG title", 0)]), "x.pdf").headings
    assert heading.start == len("end of before\n")


def test_information() -> None:
    document = only(PDF, "cats.pdf")
    assert (document.title, document.metadata) == ("On cats", {"author": "Ann"})
    assert document.created_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert only(make_pdf([["x"]]), "folder/report.pdf").title == "report"


def test_broken_words_stay_broken_and_an_owner_password_does_not_lock() -> None:
    assert only(make_pdf([["an exam-", "ple of it"]]), "x.pdf").text == "an exam-\nple of it"
    assert only(encrypted(PDF, user="", owner="boss"), "x.pdf").text.startswith("Cats")


def test_empty_page_keeps_its_number() -> None:
    document = only(make_pdf([["one"], [], ["three"]]), "x.pdf")
    assert [(p.number, p.end - p.start) for p in document.pages] == [(1, 3), (2, 0), (3, 5)]


def test_scanned() -> None:
    with pytest.raises(EmptySourceError, match="none of 2 pages has a text layer; read with --ocr"):
        only(make_pdf([[], []]), "x.pdf")


def test_passwords_and_no_pages_even_after_another_error() -> None:
    with pytest.raises(EncryptedSourceError, match="password"):
        only(encrypted(PDF, user="secret", owner="boss"), "x.pdf")
    with pytest.raises(EmptySourceError, match="without pages"):
        only(make_pdf([]), "x.pdf")


def test_many_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: only(PDF, "x.pdf").text, range(40)))
    assert set(texts) == {only(PDF, "x.pdf").text}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("D:2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("D:20240506070809Z", datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)),
        ("20240506070809-0730", datetime(2024, 5, 6, 14, 38, 9, tzinfo=UTC)),
        ("D:20241399", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_dates(written: str | None, expected: datetime | None) -> None:
    assert parse_pdf_date(written) == expected


def pages(*lines: tuple[str, str, str]) -> list[PageText]:
    return [
        PageText("\n".join(filter(None, (top, body, bottom))), (top,) * bool(top), (bottom,))
        for top, body, bottom in lines
    ]


def test_page_numbers_of_every_kind_go() -> None:
    texts, wordings = without_running_text(
        pages(
            ("", "Preface", "i"),
            ("", "More", "ii"),
            ("Chapter 1: Dogs 1", "Dogs dig.", "-"),
            ("Chapter 1: Dogs 2", "1 is one.", "-"),
            ("Chapter 2: Oaks 3", "Oaks grow.", "-"),
            ("Chapter 2: Oaks 4", "4", "-"),
            ("5", "A chapter starts.", "-"),
            ("", "End", "Page 6 of 7"),
            ("", "The end", "Page 7 of 7"),
        )
    )
    assert texts[:7] == [
        "Preface", "More", "Dogs dig.", "1 is one.", "Oaks grow.", "4", "A chapter starts.",
    ]  # fmt: skip
    assert texts[7:] == ["End", "The end"]
    assert wordings == ["Chapter 1: Dogs", "Chapter 2: Oaks", "Page of 7", "Page 7 of"]


def test_what_does_not_repeat_stays() -> None:
    given = pages(("A title", "Text.", "A note 1"), ("", "More.", "Another 2"), ("", "End.", "12"))
    assert without_running_text(given) == ([page.text for page in given], [])


def test_a_line_of_the_body_like_a_running_one_stays() -> None:
    given = pages(*[("Dogs", f"Dogs\nText {number}", "x") for number in range(4)])
    texts, _ = without_running_text(given)
    assert texts == [f"Dogs\nText {number}" for number in range(4)]


def inside(*texts: str) -> list[PageText]:
    """Pages with nothing in their margins, as LaTeX makes them."""
    return [PageText(text) for text in texts]


def test_numbers_and_headers_further_inside_go() -> None:
    given = inside(*[f"On dogs\nDogs {name}.\n- {at} -" for at, name in enumerate("abcd", 7)])
    texts, wordings = without_running_text(given)
    assert texts == ["On dogs\nDogs a.", "Dogs b.", "Dogs c.", "Dogs d."]  # it may head a table
    assert wordings == ["On dogs"]


def test_numbers_further_inside_that_count_nothing_stay() -> None:
    given = inside("Dogs\n1", "Oaks\n2", "Question 3\n7", "Question 4\n12", "3", "9")
    assert without_running_text(given) == ([page.text for page in given], [])


def test_below_a_header_in_the_margin_all_is_body() -> None:
    given = [PageText(f"Dogs\nOaks\nText {name}\nEnd", ("Dogs",)) for name in "abcd"]
    texts, _ = without_running_text(given)
    assert texts[3] == "Oaks\nText d"


def test_tables_are_lines_that_end_in_numbers() -> None:
    text = (
        "The results are as follows.\n(in millions) 2022 2021\nAssets:\nCash $ 1,200 $ (900)\n"
        "Goodwill and other\nintangible assets 55 -\nTotal 1,255 12.5%\nWe sold 3 in 2021 and 4.\n"
    )
    (table,) = tables(text)
    assert [text[part.start : part.end] for part in table.parts] == [
        "(in millions) 2022 2021",
        "Assets:\nCash $ 1,200 $ (900)",
        "Goodwill and other\nintangible assets 55 -",
        "Total 1,255 12.5%",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "In 2021 we sold 3 of 4.\nIn 2022 we sold 12.\nIn 2023 none.",
        "a 1 2\nb 3 4",
        "- -\n- -\n- -",
    ],
)
def test_no_tables(text: str) -> None:
    assert list(tables(text)) == []


JUNK = [
    "0000064803-23-000009", "aapl-20230930", "Microsoft Word - annual report.doc", "untitled",
    "Untitled-1", "Document3", "report_final.docx", "(anonymous)", "PowerPoint Presentation", "12",
    "", "5f2b8c1e-33aa-4c0e-9d6e-1f2e3d4c5b6a", "about:blank", "https://x.org/a", "Slide 1", "R",
]  # fmt: skip
GOOD = ["Annual report", "Document retention", "Titles of nobility", "2022 in review", "Über"]


@pytest.mark.parametrize("title", [*JUNK, *GOOD])
def test_junk_titles(title: str) -> None:
    assert is_junk(title) == (title in JUNK)


def heading(title: str, level: int = 1) -> Heading:
    return Heading(start=0, end=0, level=level, title=title)


def test_what_a_pdf_is_called() -> None:
    chapters = [heading("Introduction"), heading("Results")]
    assert choose_title("Good title", chapters, "stem") == "Good title"
    assert choose_title("untitled", [heading("On dogs"), heading("x", 2)], "stem") == "On dogs"
    assert choose_title("untitled", chapters, "dogs-2022") == "dogs-2022"
    assert choose_title(None, chapters, "0000064803-23-000009") == "Introduction"
    assert choose_title(None, [], "12") == "12"


ROWS = (
    ("Net sales", 383_285, 394_328),
    ("Cost of sales", 214_137, 223_546),
    ("Net income", 96, 99),
)
PROSE = "Sales of the company grew in every quarter of the year, although costs grew as well. "


def sized(*lines: tuple[float, str]) -> Document:
    """A PDF without an outline: lines of so many points, each text on a page of its own."""
    pdf = FPDF()
    pdf.add_page()
    for size, line in lines:
        pdf.set_font("helvetica", "B" if size > 11 else "", size)
        pdf.multi_cell(0, size, line, new_x="LMARGIN", new_y="NEXT")
    return only(bytes(pdf.output()), "sized.pdf")


BODY = (11, "Sea ice forms in autumn and melts in the following summer, unless it is thick. " * 3)


def test_headings_by_size_where_there_is_no_outline() -> None:
    document = sized(
        (30, "Only once"), (20, "Ice 1:2"), BODY, (15, "Drift\nof ice"), BODY, (15, "Melt"), BODY,
        (20, "Snow"), (15, "Falling"), BODY,
    )  # fmt: skip
    found = [(heading.level, heading.title) for heading in document.headings]
    assert found == [(1, "Ice 1:2"), (2, "Drift of ice"), (2, "Melt"), (1, "Snow"), (2, "Falling")]
    assert [document.text[at.start :].split()[0] for at in document.headings] == [
        "Ice", "Drift", "Melt", "Snow", "Falling",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["A large sentence ends.", "42", "Ice . . . . 3", "one\nof\nmany lines", "ice " * 40],
)
def test_large_lines_that_are_no_headings(line: str) -> None:
    assert sized((20, line), BODY, (20, line), BODY).headings == ()
    assert sized(BODY, (11.5, "Ice"), BODY, (11.5, "Snow"), BODY).headings == ()


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
    chunks = CHUNKERS.create("section", tokenizer=MINILM().tokenizer).chunk(filing)
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
    chunks = CHUNKERS.create("section:24/4", tokenizer=MINILM().tokenizer).chunk(filing)
    for block in filing.blocks:
        for part in block.parts:
            row = filing.text[part.start : part.end]
            assert any(row in chunk.text for chunk in chunks)
