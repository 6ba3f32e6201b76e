from __future__ import annotations

from lagotto.readers.pdf import PageText, without_running_text


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
