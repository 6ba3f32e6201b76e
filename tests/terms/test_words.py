from __future__ import annotations

import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.terms import Vocabulary, analyze, compounds, index_terms
from lagotto.terms.words import (
    JOINER,
    LONGEST_WORD,
    _run_pattern,
    fold,
    is_european,
    is_unspaced,
    normalise,
    runs,
    words,
)
from lagotto.testing.hash_embedder import HashEmbedder
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


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("1.2.3.4.5.6", ["1_2_3_4_5_6", "1_2", "1_2_3", "1_2_3_4"]),
        ("Python 3.7", ["3_7"]),
        ("v3.7", ["3_7"]),
        ("3.8.7", ["3_8_7", "3_8"]),
        ("python-3.7", ["python_3_7", "3_7"]),
        ("v3.8.7-rc1", ["3_8_7_rc1", "3_8_7", "3_8"]),
        ("2024-01-31T12:30Z", ["2024_01_31t12_30z", "2024_01_31", "2024_01"]),
        ("dist/dogs_1.2.tar", ["dist_dogs_1_2_tar", "dogs_1_2_tar", "1_2"]),
        ("1,234.50", ["1_234_50"]),
        ("2024-01-31", ["2024_01_31", "2024_01"]),
        ("at 12:30", ["12_30"]),
        ("COVID-19", ["covid_19"]),
        ("part AB-1234/X", ["ab_1234_x", "ab_1234"]),
        ("joe@example.com", ["joe_example_com", "example_com"]),
        ("src/lagotto/base.py", ["src_lagotto_base_py", "base_py"]),
        ("C:\\logs\\error.log", ["logs_error_log", "error_log"]),
        ("SQLITE_BUSY", ["sqlite_busy"]),
        ("Größe.txt", ["grosse_txt"]),
        ("版本3.7版", ["3_7"]),
    ],
)
def test_a_name_is_a_term_of_its_own(text: str, terms: list[str]) -> None:
    assert compounds(text) == terms


@pytest.mark.parametrize(
    "text", ["", "well-known", "and/or", "3, 7", "3 7", "a: b", "It ends. So."]
)
def test_words_beside_each_other_are_no_compound(text: str) -> None:
    assert compounds(text) == []


def test_index_terms_are_the_words_and_then_the_compounds() -> None:
    assert index_terms("Drops Python 3.7.", "en") == ["drop", "python", "3", "7", "3_7"]


def test_versions_with_the_same_parts_differ() -> None:
    assert set(analyze("3.7")) <= set(analyze("3.8.7"))
    assert not set(compounds("3.7")) & set(compounds("3.8.7"))
    assert set(compounds("3.7")) <= set(compounds("3.7.1"))


def test_a_long_path_keeps_its_end() -> None:
    (whole, *_) = compounds("/".join(["folder"] * 40) + "/report.txt")
    assert len(whole) == LONGEST_WORD
    assert whole.endswith("folder_report_txt")


@given(texts())
def test_compounds_are_made_of_the_words(text: str) -> None:
    words = {part for term in index_terms(text) for part in term.split(JOINER)}
    for term in compounds(text):
        assert JOINER in term
        assert set(term.split(JOINER)[1:]) <= words


def test_the_vocabulary_has_no_compounds() -> None:
    vocabulary = Vocabulary(index_terms("Python 3.7, see base.py"))
    assert "3_7" not in vocabulary
    assert vocabulary.corrections("3_8") == vocabulary.corrections("bse_py") == []
    assert vocabulary.corrections("pyhton")[0][0] == "python"


VERSIONS = {
    "old": "Release 3.8.7 has 3 fixes and 7 changes: 3 of 7, 7 of 3.",
    "wanted": "Support for Python 3.7 ends with this release, as announced in the notes before.",
    "patch": "Release 3.7.1 mends what was broken.",
}


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_a_version_is_found_by_its_number(tmp_path: Path, text_index: str) -> None:
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder(), text_index=text_index) as base:
        base.add(*(Document(id=name, text=text) for name, text in VERSIONS.items()))
        hits = base.retrieve("3.7", mode="keyword", fuzzy={"mode": "off"})
        assert [hit.document_id for hit in hits][-1] == "old"
        assert base.retrieve("3.8.7", mode="keyword")[0].document_id == "old"


def test_an_fts5_index_by_other_rules_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with KnowledgeBase(path, embedder=HashEmbedder(), text_index="fts5") as base:
        base.add(*(Document(id=name, text=text) for name, text in VERSIONS.items()))
        before = base.retrieve("3.7", mode="keyword")[0].breakdown
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE setting SET value = 'terms-1' WHERE name = 'text_rules'")
        file.execute("UPDATE chunk_terms SET terms = '3 7'")
    with KnowledgeBase(path, embedder=HashEmbedder()) as base:
        assert base.retrieve("3.7", mode="keyword")[0].breakdown == before
