from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import AnswerCheck, check_answer
from lagotto.context.answer_check import FoldedText, quotations
from lagotto.documents import Document
from lagotto.prefs import ContextPrefs
from tests.growth import grows_linearly

from .made import Shelf, hits

TRUFFLES = Document(
    id="truffles", text="Truffles grow on the roots of oak and hazel. “Tuber magnatum” is white."
)
DOGS = Document(
    id="dogs", text="The Lagotto was a water dog.\nToday it is trained\nto find truffles."
)
SHELF = Shelf(TRUFFLES, DOGS, chunker="recursive:64/0")
PACK = SHELF.pack(hits(SHELF.all_to_find()), prefs=ContextPrefs())


def check(answer: str) -> AnswerCheck:
    return check_answer(answer, pack=PACK)


def test_each_sentence_has_its_markers() -> None:
    found = check("They grow on roots [1]. Dogs find them. [2][1] Both [1, 2] hold [1-2]. Maybe.")
    assert [claim.markers for claim in found.claims] == [(1,), (2, 1), (1, 2), ()]
    assert [claim.text for claim in found.uncited] == ["Maybe."]
    assert not found.ok
    assert check_answer("Maybe. They grow on roots [1].", pack=PACK, may_be_uncited=True).ok


def test_lines_and_lists_are_sentences_and_headings_are_none() -> None:
    answer = "# Truffles\n\nWhat is known:\n- they grow on roots [1]\n- dogs find them\n  [2]\n"
    found = check(answer)
    assert [(claim.text, claim.markers) for claim in found.claims] == [
        ("What is known:", ()),
        ("- they grow on roots [1]", (1,)),
        ("- dogs find them\n  [2]", (2,)),
    ]


def test_unknown_markers_are_told_in_order() -> None:
    found = check("So [9]. And [1]. Then [4-5]; [9].\n[7]")
    assert found.unknown_markers == (9, 4, 5, 7)
    assert not found.ok
    (quote,) = check('It was "a water dog" [9].').claims[0].quotes
    assert quote.found_in is None


def test_a_huge_range_costs_nothing() -> None:
    assert check("All of it [1-999999].").claims[0].markers == (1, 2, 999999)


def test_quotations_are_found_whatever_their_marks_case_and_white_space() -> None:
    answer = (
        'It says "today it is trained to find truffles." [2] The white one is «tuber Magnatum» [1].'
    )
    found = check(answer)
    assert found.ok
    first, second = (quote for claim in found.claims for quote in claim.quotes)
    assert (first.found_in, second.found_in) == (2, 1)
    assert first.source is not None
    assert second.source is not None
    assert DOGS.text[slice(*first.source)] == "Today it is trained\nto find truffles"
    assert TRUFFLES.text[slice(*second.source)] == "Tuber magnatum"
    assert answer[first.start : first.end] == first.text


@pytest.mark.parametrize("mark", [*" .,;:!?…-—–", "...", "’", " —"])
def test_punctuation_at_the_ends_of_a_quotation_is_the_answer_s_own(mark: str) -> None:
    (claim,) = check(f"It is “{mark}a water dog{mark}” [2]").claims
    assert [quote.found_in for quote in claim.quotes] == [2]


def test_a_quotation_must_stand_in_what_is_cited() -> None:
    found = check('The book says "a water dog" [1]. It was "a water dog" [2]. Also "a water dog".')
    assert [quote.start for quote in found.missing_quotes] == [15]
    assert [claim.quotes[0].found_in for claim in found.claims] == [None, 2, 2]
    assert not found.ok


def test_an_invented_quotation_is_missing() -> None:
    (quote,) = check("They “taste of garlic. And honey.” [1]").missing_quotes
    assert quote.text == "taste of garlic. And honey."
    assert (quote.found_in, quote.source) == (None, None)


def test_an_empty_answer_claims_nothing() -> None:
    assert check("") == AnswerCheck()
    assert check(" \n[1]").claims == ()


def test_other_marks_quote_too_and_measures_do_not() -> None:
    text = 'He says „so“, «so», 「so」, “so”, but 5" by 3" wide, "" and "…".'
    assert [text[span.start : span.end] for span in quotations(text)] == ["so"] * 4


def test_white_space_of_any_kind_may_stand_before_a_full_stop() -> None:
    found = check("It was plan A\xa0. Because it is [1].")
    assert [claim.text for claim in found.claims] == ["It was plan A\xa0.", "Because it is [1]."]


@given(st.text(max_size=200))
def test_any_text_can_be_checked(answer: str) -> None:
    found = check(answer)
    for claim in found.claims:
        assert answer[claim.start : claim.end] == claim.text
        assert claim.text.strip() == claim.text != ""
        for quote in claim.quotes:
            assert answer[quote.start : quote.end] == quote.text
    ends = [claim.end for claim in found.claims]
    assert ends == sorted(ends)


@given(st.text(max_size=60), st.data())
def test_any_part_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    part = text[start : data.draw(st.integers(start, len(text)))]
    found = FoldedText(text).locate(part.swapcase() if part.isascii() else part)
    said = part.strip(" .,;:!?…\"'-\n\t")
    if any(char.isalnum() for char in said):
        assert found is not None


@pytest.mark.parametrize(
    "piece",
    [
        *('"', "“", "„", "«", "「", "\n", " ", "' ", ". ", "“x”", '"a" ', '"a b". ', "x\n\n"),
        *("[1]", "[1-2] ", "[1,", "a. [1] ", '"grow on" and so. '),
    ],
)
def test_any_answer_is_checked_in_linear_time(piece: str) -> None:
    assert grows_linearly(lambda size: check(piece * (size // len(piece))), 10_000, times=8)


POULTRY = Document(
    id="poultry",
    title="Safe temperatures",
    text="Poultry is safe at 74 °C. On 4 March 2025 the Danish authority counted 1,749 cases, "
    "24.01 % more than in the three years before, and Dr. Holm asked for 5 per cent.",
)
KITCHEN = Shelf(POULTRY, chunker="document")
COOKED = KITCHEN.pack(hits(KITCHEN.all_to_find()))


@pytest.mark.parametrize(
    "answer",
    [
        "Poultry is safe at 74 °C [1].",
        "Poultry is safe at 74 °C【1】.",
        "Poultry is safe at 74 °C 【1†source】.",
        "Poultry is safe at 74 °C [^1].",
        "Poultry is safe at 74 °C (1).",
        "1. There were 1749 cases [1].\n2. That is 24.010 percent more than in 3 years [1].",
        "The Danish authority counted 1'749 on 2025-03-04 [1]. Why? Here is more: Holm asked [1].",
        "According to Safe temperatures, it was in March [1].",
    ],
)
def test_what_is_cited_and_in_the_passage_is_ok(answer: str) -> None:
    found = check_answer(answer, pack=COOKED)
    assert found.ok, found
    assert all(claim.text == answer[claim.start : claim.end] for claim in found.claims)


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("", ()),
        ("Poultry is safe at 74 °C.", ()),
        ("Poultry is safe at 99 °C [1].", ("99",)),
        ("Poultry is safe at 99 °C【1】.", ("99",)),
        ("There were 1,750 cases [1].", ("1,750",)),
        ("It was 24.1 % more [1].", ("24.1",)),
        ("It was in April [1].", ("April",)),
        ("The Norwegian authority counted them [1].", ("Norwegian",)),
        ("It is safe at 74 °C [2].", ()),
    ],
)
def test_what_is_uncited_or_not_in_the_passage_is_not_ok(
    answer: str, missing: tuple[str, ...]
) -> None:
    found = check_answer(answer, pack=COOKED)
    assert not found.ok
    assert [one for claim in found.unsupported for one in claim.missing] == list(missing)


def test_where_nouns_are_capitalised_names_are_not_looked_for() -> None:
    text = "Der Hund sucht im Wald die Trüffel, und das Schwein frisst die Eicheln der Eiche."
    shelf = Shelf(Document(id="de", text=text), chunker="document")
    pack = shelf.pack(hits(shelf.all_to_find()))
    assert check_answer("Im Wald sucht ein Tier die Pilze [1].", pack=pack).ok


def test_a_judge_is_asked_about_each_sentence_that_cites() -> None:
    asked = []

    def judge(said: str, passages: object) -> bool:
        asked.append((said, passages))
        return "not" not in said

    answer = "Poultry is safe at 74 °C [1]. It is not safe at 74 °C [1]. What else?"
    found = check_answer(answer, pack=COOKED, judge=judge)
    assert [said for said, _ in asked] == [
        "Poultry is safe at 74 °C .",
        "It is not safe at 74 °C .",
    ]
    assert asked[0][1] == [POULTRY.text]
    assert [claim.follows for claim in found.claims] == [True, False, None]
    assert not found.ok
    assert check_answer(answer, pack=COOKED).ok  # what it can't know


def test_a_marker_that_begins_a_line_belongs_to_it() -> None:
    found = check("They grow on roots.\n\n[1] Dogs find them.")
    assert [claim.markers for claim in found.claims] == [(), (1,)]
