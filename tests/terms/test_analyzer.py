from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagotto.terms import (
    MAX_QUERY_TERMS,
    QueryTerm,
    analyze,
    analyzer_id,
    index_terms,
    keywords,
    query_language,
    query_terms,
)
from lagotto.testing.strategies import texts

ANY_TEXT = st.one_of(texts(), st.text(st.characters(exclude_categories=[])))
LANGUAGES = st.sampled_from([None, "en", "de", "fr", "ru", "tr", "ar", "el", "zh", "hi", "xx"])
TERM = re.compile(r"[a-z0-9_\x80-\U0010ffff]{1,64}")


@pytest.mark.parametrize(
    ("language", "same"),
    [
        ("en", ["cancelled", "cancel", "Cancels", "CANCELLING"]),
        ("en", ["naïve", "naive", "NAÏVE", "nai\u0308ve"]),
        ("de", ["Häuser", "Haus", "HÄUSER"]),
        ("de", ["Straße", "STRASSE", "Strassen"]),
        ("fr", ["mangée", "mangées", "MANGÉE"]),
        ("es", ["canción", "canciones"]),
        ("ru", ["зелёный", "зеленый", "зелёная", "ЗЕЛЁНЫЕ"]),
        ("el", ["θάλασσα", "θάλασσας", "ΘΑΛΑΣΣΑ"]),
        ("tr", ["kitaplar", "KİTAPLAR", "kitap"]),
        ("no", ["øyer", "ØYER"]),
    ],
)
def test_forms_of_a_word_share_a_term(language: str, same: list[str]) -> None:
    assert len({tuple(analyze(word, language)) for word in same}) == 1


def test_terms_keep_their_order_and_the_stop_words() -> None:
    terms = analyze("The cats were sitting on the mat.", "en")
    assert terms == ["the", "cat", "were", "sit", "on", "the", "mat"]


def test_language_tags() -> None:
    assert analyze("houses", "en-GB") == analyze("houses", "EN_us") == ["hous"]
    assert analyze("husene", "nb") == analyze("husene", "nn") == analyze("husene", "no") == ["hus"]


@pytest.mark.parametrize("language", [None, "", "xx", "zh", "uk", "not a language"])
def test_without_a_stemmer_words_stay_whole(language: str | None) -> None:
    assert analyze("Houses naïve", language) == ["houses", "naive"]


def test_words_with_digits_are_not_stemmed() -> None:
    assert analyze("mp3s utf8ing", "en") == ["mp3s", "utf8ing"]


@pytest.mark.parametrize("identifier", ["SQLITE_BUSY", "CVE-2024-3094", "foo.bar()", "C++", "v1.2"])
def test_an_identifier_is_a_phrase_of_its_parts(identifier: str) -> None:
    terms = analyze(f"It says {identifier}, see there.", "en")
    parts = analyze(identifier, "en")
    assert parts in [terms[at : at + len(parts)] for at in range(len(terms))]


@given(text=ANY_TEXT, language=LANGUAGES)
def test_terms_survive_any_tokenizer(text: str, language: str | None) -> None:
    terms = index_terms(text, language)
    assert all(TERM.fullmatch(term) for term in terms)
    assert " ".join(terms).split() == terms


@given(text=ANY_TEXT)
def test_terms_without_a_stemmer_are_their_own_terms(text: str) -> None:
    terms = analyze(text)
    assert analyze(" ".join(terms)) == terms


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        tokenizer = "ascii tokenchars ''_''"
        connection.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, tokenize='{tokenizer}')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab('t', 'instance')")
        yield connection


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=ANY_TEXT, language=LANGUAGES)
def test_sqlite_reads_back_the_terms(
    database: sqlite3.Connection, text: str, language: str | None
) -> None:
    terms = index_terms(text, language)
    database.execute("DELETE FROM t")
    database.execute("INSERT INTO t VALUES (?)", [" ".join(terms)])
    rows = database.execute('SELECT term FROM v ORDER BY "offset"').fetchall()
    assert [term for (term,) in rows] == terms


def test_threads_agree() -> None:
    text = " ".join(
        f"connect{'ing' * (n % 3)} relation{n}al nation{'al' * (n % 4)}" for n in range(999)
    )
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: analyze(text, "en"), range(16)))
    assert all(result == results[0] for result in results)


def test_the_stop_words_of_a_query_show_its_language() -> None:
    assert query_language("wo ist der Hund", ["en", "de"]) == "de"
    assert query_language("where is the dog", ["de", "en", None]) == "en"
    assert query_language("Hund", ["en", "de"]) == "en"  # on a tie the first
    assert query_language("Hund", []) is None


def test_query_terms() -> None:
    assert query_terms("The Häuser", ["en", "de"]) == [
        QueryTerm("the", ("the",), stop=True),
        QueryTerm("häuser", ("hauser", "haus"), stop=False),
    ]


def test_the_small_words_of_a_query_tell_its_language() -> None:
    def stops(text: str) -> list[str]:
        return [term.word for term in query_terms(text, ["en", "de", "ru", None]) if term.stop]

    assert stops("Where did she die?") == ["where", "did", "she"]
    assert stops("Wo ist die Katze?") == ["wo", "ist", "die"]
    assert stops("Когда это было?") == ["когда", "это", "было"]


def test_query_terms_are_distinct() -> None:
    found = query_terms("house Houses HOUSE garden", ["en"])
    assert [term.word for term in found] == ["house", "garden"]


@pytest.mark.parametrize("languages", [[], [None], ["xx"]])
def test_without_a_list_nothing_is_a_stop_word(languages: list[str | None]) -> None:
    assert keywords("The who and the what", languages) == ["the", "who", "and", "what"]


@given(text=ANY_TEXT, languages=st.lists(LANGUAGES, max_size=3))
def test_query_terms_find_what_was_indexed(text: str, languages: list[str | None]) -> None:
    found = query_terms(text, languages)
    for position, language in enumerate(languages):
        terms = analyze(text, language)
        assert {term for query in found for term in query.variants} >= set(terms[:MAX_QUERY_TERMS])
        assert position or not found or found[0].variants[0] == terms[0]


def test_long_queries_are_capped() -> None:
    found = query_terms(" ".join(f"w{n}" for n in range(20_000)) * 2, ["en", "de"])
    assert [term.word for term in found] == [f"w{n}" for n in range(MAX_QUERY_TERMS)]


@pytest.mark.parametrize(
    ("query", "language", "expected"),
    [
        ("When was Stargate Atlantis cancelled?", "en", ["stargate", "atlantis", "cancelled"]),
        ("Wann wurde der Vertrag unterzeichnet?", "de", ["wann", "vertrag", "unterzeichnet"]),
        ("Qu'est-ce que l'économie circulaire ?", "fr", ["économie", "circulaire"]),
        ("Где находится Эрмитаж?", "ru", ["находится", "эрмитаж"]),
        ("the who", "en", ["the", "who"]),
        ("to be or not to be", "en", ["to", "be", "or", "not"]),
        ("", "en", []),
    ],
)
def test_keywords(query: str, language: str, expected: list[str]) -> None:
    assert keywords(query, [language]) == expected


def test_the_id_names_the_stemmer_and_the_unicode_version() -> None:
    assert re.fullmatch(r"terms-\d+/snowball-[\d.]+/unicode-[\d.]+", analyzer_id())
