from __future__ import annotations

import pytest

from lagotto.terms.languages import SAMPLE, alphabet_share


@pytest.mark.parametrize(
    ("text", "alphabets", "share"),
    [
        ("naïve café", ("LATIN",), 1.0),
        ("Когда", ("LATIN",), 0.0),
        ("abc где", ("LATIN",), 0.5),
        ("abc где", ("LATIN", "CYRILLIC"), 1.0),
        ("東京 Tokyo", ("CJK",), 2 / 7),
        ("ab 12 ?!", ("LATIN",), 1.0),
    ],
)
def test_share_of_letters(text: str, alphabets: tuple[str, ...], share: float) -> None:
    assert alphabet_share(text, alphabets) == pytest.approx(share)


def test_no_alphabets_mean_all() -> None:
    assert alphabet_share("Когда", ()) == 1.0


@pytest.mark.parametrize("text", ["", "1234", "?!"])
def test_no_letters_fit_any_alphabet(text: str) -> None:
    assert alphabet_share(text, ("LATIN",)) == 1.0


def test_only_the_start_of_a_long_text_counts() -> None:
    assert alphabet_share("a" * SAMPLE + "я" * SAMPLE, ("LATIN",)) == 1.0
