from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.terms import Vocabulary, analyze, compounds, index_terms
from lagotto.terms.words import JOINER, LONGEST_WORD
from lagotto.testing.hash_embedder import HashEmbedder
from lagotto.testing.strategies import texts


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
