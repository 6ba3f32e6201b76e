from __future__ import annotations

import pytest

from lagotto.documents import Heading
from lagotto.readers.pdf import choose_title, is_junk


@pytest.mark.parametrize(
    "title",
    [
        "0000064803-23-000009", "aapl-20230930", "Microsoft Word - annual report.doc", "untitled",
        "Untitled-1",
        "Document3", "report_final.docx", "(anonymous)", "PowerPoint Presentation", "12", "",
        "5f2b8c1e-33aa-4c0e-9d6e-1f2e3d4c5b6a", "about:blank", "https://x.org/a", "Slide 1",
    ],
)  # fmt: skip
def test_junk_titles(title: str) -> None:
    assert is_junk(title)


@pytest.mark.parametrize(
    "title",
    ["Annual report", "Document retention", "Titles of nobility", "R", "2022 in review", "Über"],
)
def test_good_titles(title: str) -> None:
    assert is_junk(title) == (title == "R")


def heading(title: str, level: int = 1) -> Heading:
    return Heading(start=0, end=0, level=level, title=title)


def test_what_a_pdf_is_called() -> None:
    chapters = [heading("Introduction"), heading("Results")]
    assert choose_title("Good title", chapters, "stem") == "Good title"
    assert choose_title("untitled", [heading("On dogs"), heading("x", 2)], "stem") == "On dogs"
    assert choose_title("untitled", chapters, "dogs-2022") == "dogs-2022"
    assert choose_title(None, chapters, "0000064803-23-000009") == "Introduction"
    assert choose_title(None, [], "12") == "12"
