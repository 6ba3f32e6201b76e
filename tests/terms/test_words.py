from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.terms.words import (
    LONGEST_WORD,
    _run_pattern,
    fold,
    is_european,
    is_unspaced,
    normalise,
    runs,
    words,
)
from lagotto.testing.strategies import texts

ANY_TEXT = st.one_of(texts(), st.text(st.characters(exclude_categories=[])))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SQLITE_BUSY", ["sqlite", "busy"]),
        ("max_connections=100", ["max", "connections", "100"]),
        ("E-17", ["e", "17"]),
        ("foo.bar()", ["foo", "bar"]),
        ("CVE-2024-3094", ["cve", "2024", "3094"]),
        ("ECONNREFUSED", ["econnrefused"]),
        ("camelCase", ["camelcase"]),
        ("sqlite3 3.14", ["sqlite3", "3", "14"]),
        ("node.js", ["node", "js"]),
        ("C++ (C#, not C)", ["c", "plusplus", "c", "sharp", "not", "c"]),
        ("page#top a+b x+=1 2++", ["page", "top", "a", "b", "x", "1", "2"]),
        ("don't l'homme", ["don", "t", "l", "homme"]),
        ("м'ята мʼята", ["м", "ята", "м", "ята"]),
        ("re\u00adtrieval \ufb01le ＡＢＣ", ["retrieval", "file", "abc"]),
        ("emoji 👩‍👩‍👧 gone", ["emoji", "gone"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ("", []),
        ("... --- !!!", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都", ["東京", "京都"]),
        ("水", ["水"]),
        ("iPhone手机2024年", ["iphone", "手机", "2024", "年"]),
        ("テスト・コード。", ["テス", "スト", "コー", "ード"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("한국어는 말", ["한국", "국어", "어는", "말"]),
        ("ภาษา๒๕", ["ภา", "าษ", "ษา", "๒๕"]),
        ("ខ្មែរ", ["ខ្", "្ម", "មែ", "ែរ"]),
    ],
)
def test_scripts_without_spaces_give_pairs(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "বাংলা", "മലയാളം", "አማርኛ"])
def test_marks_stay_in_the_words_they_belong_to(word: str) -> None:
    assert words(word) == [unicodedata.normalize("NFKC", word)]


def test_optional_marks_go() -> None:
    assert words("مُحَمَّد שָׁלוֹם за́мок") == ["محمد", "שלום", "замок"]


def test_turkish_has_two_letters_i() -> None:
    assert words("ISPARTA İzmir I\u0307zmir", "tr") == ["ısparta", "izmir", "izmir"]
    assert words("ISPARTA İzmir I\u0307zmir") == ["isparta", "izmir", "izmir"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("naïve", "naive"),
        ("łódź", "lodz"),
        ("ǿrsted", "orsted"),
        ("ærø", "aero"),
        ("œuvre þing ðal đuro ħal ılık", "oeuvre thing dal duro hal ilik"),
        ("ελλάδα", "ελλαδα"),
        ("ёлка", "елка"),
        ("йод", "йод"),
        ("їжак", "їжак"),
        ("١٢٣", "123"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_folding(word: str, expected: str) -> None:
    assert fold(word) == expected


def test_long_runs_are_cut() -> None:
    assert [len(word) for word in words("x" * 150)] == [LONGEST_WORD, LONGEST_WORD, 22]


def test_piles_of_marks_are_no_trap() -> None:
    assert words("a" + "\u0301\u0316" * 200_000 + "b") == ["áb"]


@given(text=ANY_TEXT, language=st.sampled_from(["tr", "en", "zh"]))
def test_the_language_does_not_change_the_number_of_words(text: str, language: str) -> None:
    assert len(words(text, language)) == len(words(text))


@given(text=texts())
def test_the_form_of_unicode_does_not_matter(text: str) -> None:
    composed, apart = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert words(composed) == words(apart)


@given(text=st.text("漢字かなカナ한글ไทย", min_size=2, max_size=30), data=st.data())
def test_pairs_of_a_part_are_pairs_of_the_whole_in_a_row(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 2))
    end = data.draw(st.integers(start + 2, len(text)))
    whole, part = words(text), words(text[start:end])
    assert any(whole[at : at + len(part)] == part for at in range(len(whole)))


@given(text=ANY_TEXT)
def test_runs_are_the_words_before_pairing(text: str) -> None:
    together = "".join(runs(text))
    assert set("".join(words(text))) <= set(together) | set("plusplussharp")


def test_the_short_expression_finds_what_that_of_all_alphabets_finds() -> None:
    """Each character of the basic plane, alone, in a word and behind one."""
    known = 0
    for code in range(0x10000):
        text = normalise(f"{chr(code)} a{chr(code)}b c{chr(code)}+ c++ 1{chr(code)}#")
        known += is_european(text)
        assert runs(text) == _run_pattern().findall(text), hex(code)
    assert known > 1_000


@given(texts())
def test_runs_do_not_depend_on_the_expression(text: str) -> None:
    assert runs(text) == _run_pattern().findall(normalise(text))


def test_scripts_without_spaces_are_known_by_their_first_character() -> None:
    assert [char for char in "aé中かกя한" if is_unspaced(char)] == list("中かก한")
