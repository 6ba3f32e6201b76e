from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.readers import read_path
from lagotto.readers.plain import clause_headings

CONTRACT = """SERVICE AGREEMENT

between A and B.

1. Definitions. In this Agreement, "Service" means the hosting of software as it is described below.
1.1 "Supplier" means A Ltd.
1.2 "Customer" means B Ltd, with its seat in Vienna, which orders the
3.2 million units per year that are described in the schedule.
2. Payment terms: The Customer pays within thirty days of the date of the invoice, in euros.
2.1. Fees
The fees are those of the price list.
3. Term
This agreement lasts for two years and is renewed by one year unless either party gives notice.
4. Governing law
The law of Austria applies, with the exception of its conflict rules, in the courts of Vienna.
"""


def titles(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in clause_headings(text)]


def test_clauses_and_subclauses() -> None:
    assert titles(CONTRACT) == [
        (1, "1. Definitions"),
        (2, '1.1 "Supplier" means A Ltd'),
        (2, "1.2"),  # a sentence is no title, and an amount is no clause
        (1, "2. Payment terms"),
        (2, "2.1 Fees"),
        (1, "3. Term"),
        (1, "4. Governing law"),
    ]
    first, inner, *_ = clause_headings(CONTRACT)
    assert CONTRACT[first.start : first.end].startswith("1. Definitions")
    assert CONTRACT[first.start : first.end].endswith("in the schedule.\n")
    assert first.start < inner.start < inner.end < first.end


BODY = "The parties agree on this matter at some length. " * 4


@pytest.mark.parametrize("numbers", [("1", "2", "3", "4"), ("I", "II", "III", "IV")])
@pytest.mark.parametrize("form", ["§ {}", "Article {}", "ARTICLE {}.", "Article {}\n"])
def test_named_clauses(form: str, numbers: tuple[str, ...]) -> None:
    text = "".join(f"{form.format(number)} Scope\n{BODY}\n" for number in numbers)
    label = form.strip(".\n")
    assert titles(text) == [(1, f"{label.format(number)} Scope") for number in numbers]


def test_numbers_start_anew_in_each_article() -> None:
    text = "".join(f"Article {n} Scope\n1. First\n{BODY}\n2. Then\n{BODY}\n" for n in (1, 2, 3))
    assert [level for level, _ in titles(text)] == [1, 2, 2] * 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Shopping\n1. Milk\n2. Eggs\n3. Bread\n4. Butter",
        "1999 was a good year.\n2. A single point is no contract. " + "word " * 100,
        "As stated in\nSection 3 of the Act, this is\nSection 4 of the Act, too. " + "word " * 100,
        "3. Third\n7. Seventh\n1. First\n" + "word " * 200,
    ],
)
def test_what_is_none(text: str) -> None:
    assert titles(text) == []


@given(st.text(alphabet="1234.§ \nArticle IVab", max_size=200))
def test_any_text(text: str) -> None:
    for heading in clause_headings(text * 5):
        assert 0 <= heading.start < heading.end <= 5 * len(text)


def test_a_file_without_headings_has_its_clauses(tmp_path: Path) -> None:
    path = tmp_path / "contract.txt"
    path.write_text(CONTRACT, encoding="utf-8")
    (document,) = read_path(path)
    assert [heading.title for heading in document.headings][:1] == ["1. Definitions"]
    assert document.title == "contract"
