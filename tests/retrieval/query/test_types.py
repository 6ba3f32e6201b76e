from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.text_query import Phrase, holds
from lagotto.prefs import QueryType
from lagotto.retrieval.query.types import (
    LONGEST_IDENTIFIER,
    classify,
    find_identifiers,
    identifiers,
    quotations,
)
from lagotto.terms import analyze
from lagotto.testing.strategies import texts

ANY_TEXT = st.one_of(texts(max_words=30), st.text(st.characters(exclude_categories=[])))

NAMES = """
    ERR_4012 foo_bar snake_case_name CVE-2024-1234 cve-2024-1234 foo.bar_baz() main() E1234-X
    a@b.org @handle user@host /usr/lib ./configure ../lib ~/.bashrc C:\\Users\\ada src/main.py
    config.yaml example.org java.util.HashMap numpy.linalg v2.3.1 python3.11 ISO-9001 UTF-8 SHA-256
    IL-6 COVID-19 SARS-CoV-2 F-16 Ту-154 GPT-4o R2-D2 p53 CD4 B12 H1N1 MP3 A4 0x80070057
    550e8400-e29b-41d4-a716-446655440000 192.168.0.1 10.0.0.1:8080 std::vector urn:isbn:0451450523
    https://example.org/a?b=c --verbose getUserName parseJson NullPointerException АИ95
"""

NO_NAMES = """
    well-known state-of-the-art X-ray T-shirt vis-à-vis e-mail 1990 1990s 1990's 19th 2nd 3.14 1,000
    50% $5.99 10km 100GB 3pm 24-hour 5-year-old mid-1990s top-10 type-2 20th-century 2024-01-15
    12/31/1999 15.01.2024 10:30 24/7 e.g. i.e. U.S. U.S.A. a.m. Ph.D. don't O'Brien rock'n'roll
    l'avion and/or he/she TCP/IP km/h N/A NASA iPhone eBay McDonald YouTube macOS siRNA miRNAs C++
    C# AT&T ended.The Mr.Smith ___ _emphasis_ Note:this ... - (text) [1] 2024年1月 第3章 naïve
    D-Day A/B 3D 4K
"""


@pytest.mark.parametrize("word", NAMES.split())
@pytest.mark.parametrize("around", ["{}", "what does ({}) mean", "“about” {}?", "{}, and"])
def test_identifiers(word: str, around: str) -> None:
    assert [found for found, _ in find_identifiers(around.format(word))] == [word]


@pytest.mark.parametrize("word", NO_NAMES.split())
def test_other_words_are_no_identifiers(word: str) -> None:
    assert not find_identifiers(word)
    assert not find_identifiers(f"the {word}, and so on.")


def test_identifiers_come_with_a_reason_once_and_outside_quotations() -> None:
    query = 'ERR_4012 or "ERR_1", then ERR_4012: /usr/lib'
    assert list(find_identifiers(query)) == [
        ("ERR_4012", "an underscore inside"),
        ("/usr/lib", "a path"),
    ]
    assert list(find_identifiers("TDP-43-induced IL-6's")) == [
        ("TDP-43", "capitals, a hyphen and a number"),
        ("IL-6", "capitals, a hyphen and a number"),
    ]
    assert list(find_identifiers("使用ERR_4012错误")) == [("ERR_4012", "an underscore inside")]
    assert not find_identifiers("a_" * LONGEST_IDENTIFIER)


def test_exact_wordings_are_phrases_of_terms() -> None:
    query = 'Why does "running out" of «Memory» raise ERR_4012 with "running out"?'
    quoted = [Phrase((("run", "out"), ("running", "out"))), Phrase((("memori",), ("memory",)))]
    named = [Phrase((("err", "4012"),))]
    assert quotations(query, ["en", None]) == quoted
    assert identifiers(query, ["en", None]) == named


def test_marks_that_quote_nothing() -> None:
    assert quotations('a 24" and a 27" screen, "" and "?!", צה"ל ו"כ') == []
    assert quotations("it's 'so' called") == []


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("exact", "ERR_4012"),
        ("exact", "what is ERR_4012?"),
        ("exact", '"to be or not to be"'),
        ("exact", "“printer on fire” and lp0"),
        ("keywords", "ERR_4012 timeout"),
        ("keywords", "solar panels"),
        ("keywords", "effects of aspirin on the heart"),
        ("keywords", "the man who sold the world"),
        ("keywords", "Will Smith movies"),
        ("keywords", "机器学习"),
        ("keywords", "the who"),
        ("keywords", '""'),
        ("keywords", ""),
        ("question", "When was Stargate Atlantis cancelled?"),
        ("question", "when was stargate atlantis cancelled"),
        ("question", "In which year did it end"),
        ("question", "By whom was the book written"),
        ("question", "is aspirin effective against migraine"),
        ("question", "solar panels worth it?"),
        ("question", "Wann wurde Bremen gegründet"),
        ("question", "In welchem Jahr wurde Bremen gegründet"),
        ("question", "Où se trouve le Louvre"),
        ("question", "À quelle heure ouvre le Louvre"),
        ("question", "¿Dónde está Madrid"),
        ("question", "En qué año murió Franco"),
        ("question", "Кто написал Войну и мир"),
        ("question", "В каком году основан Петербург"),
        ("question", "Dove si trova Roma"),
        ("question", "Quem escreveu Os Lusíadas"),
        ("question", "北京奥运会什么时候举行"),
        ("question", "富士山の高さはいくらですか"),
        ("question", "パンダは何を食べる"),
        ("description", "He was born in Berlin"),
        ("description", "Aspirin reduces heart attacks."),
        ("description", "a short story about a dog that finds its way home over the mountains"),
        ("description", "I wonder how this works"),
        ("description", "about the oak"),
        ("keywords", "the oak"),
    ],
)
def test_types(kind: QueryType, query: str) -> None:
    languages = ["en", "de", "fr", "es", "ru", "it", "pt"]
    assert classify(query, languages).type == kind


def test_question_words_of_other_languages_do_not_count() -> None:
    assert classify("comment spam", ["en"]).type == "keywords"
    assert classify("comment faire du pain", ["fr"]).type == "question"
    assert classify("comment faire du pain", [None]).type == "question"


def test_reasons() -> None:
    assert classify('ERR_4012 "on fire"').reason == 'only exact wordings: "on fire", ERR_4012'
    assert classify("Solar panels?").reason == "a question mark"
    assert classify("when it ends", ["en"]).reason == "the question word when"
    assert classify("does it end well", ["en"]).reason == "it begins with the verb does"
    assert classify("the solar panels", ["en"]).reason == "2 content words and 1 stop words"


@given(ANY_TEXT, st.sampled_from([None, "en", "ru", "zh"]))
def test_every_text_has_a_type_and_holds_its_wordings(text: str, language: str | None) -> None:
    assert classify(text, [language]).reason
    for part in (*quotations(text, [language]), *identifiers(text, [language])):
        assert holds(part, analyze(text, language))


@pytest.mark.parametrize("part", ['"', "“", "«", "A", "a_", "-1", "A-", "?", "wo ", "("])
def test_long_nonsense_is_no_problem(part: str) -> None:
    assert classify(part * 10_000, ["en"]).reason
    found = [*quotations(part * 10_000, ["en"]), *identifiers(part * 10_000, ["en"])]
    assert len(found) < 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("oak hazel soil rain root", "keywords"),
        ("oak hazel soil rain root dog", "description"),
    ],
)
def test_more_than_five_content_words_describe(query: str, expected: QueryType) -> None:
    assert classify(query, ["en"]).type == expected
