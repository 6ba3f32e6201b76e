from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from lagotto.errors import EmptySourceError, EncryptedSourceError
from lagotto.readers.pdf import parse_pdf_date
from tests.readers.pdf_maker import Bookmark, make_pdf
from tests.readers.samples import PDF, encrypted, only


def test_pages() -> None:
    document = only(PDF, "cats.pdf")
    assert document.text == "Cats\nCats sleep a lot.\n\nFacts\nTom sleeps 16 hours."
    pages = [(p.number, p.label, document.text[p.start : p.end]) for p in document.pages]
    assert pages == [
        (1, "i", "Cats\nCats sleep a lot."),
        (2, "1", "Facts\nTom sleeps 16 hours."),
    ]


def test_outline_gives_headings() -> None:
    document = only(PDF, "cats.pdf")
    second = document.pages[1].start
    behind = second + len("Facts")  # "Gone" is nowhere on its page
    assert [(h.title, h.level, h.start, h.end) for h in document.headings] == [
        ("Cats", 1, 0, behind),
        ("Facts", 2, second, behind),
        ("Gone", 1, behind, len(document.text)),
    ]


def test_a_heading_starts_where_its_title_stands() -> None:
    pdf = make_pdf(
        [["end of before", "A  long", "title", "text"]], outline=[Bookmark("a LONG title", 0)]
    )
    [heading] = only(pdf, "x.pdf").headings
    assert heading.start == len("end of before\n")


def test_information() -> None:
    document = only(PDF, "cats.pdf")
    assert (document.title, document.metadata) == ("On cats", {"author": "Ann"})
    assert document.created_at == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert only(make_pdf([["x"]]), "folder/report.pdf").title == "report"


def test_broken_words_stay_broken() -> None:
    assert only(make_pdf([["an exam-", "ple of it"]]), "x.pdf").text == "an exam-\nple of it"


def test_empty_page_keeps_its_number() -> None:
    document = only(make_pdf([["one"], [], ["three"]]), "x.pdf")
    assert [(p.number, p.end - p.start) for p in document.pages] == [(1, 3), (2, 0), (3, 5)]


def test_owner_password_alone_does_not_lock() -> None:
    assert only(encrypted(PDF, user="", owner="boss"), "x.pdf").text.startswith("Cats")


def test_password() -> None:
    with pytest.raises(EncryptedSourceError, match="password"):
        only(encrypted(PDF, user="secret", owner="boss"), "x.pdf")


def test_scanned() -> None:
    with pytest.raises(EmptySourceError, match="none of 2 pages has a text layer; read with --ocr"):
        only(make_pdf([[], []]), "x.pdf")


def test_no_pages_even_after_another_error() -> None:
    with pytest.raises(EncryptedSourceError):
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
