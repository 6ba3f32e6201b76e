from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import ConfigError
from lagotto.results import Leg
from lagotto.retrieval.documents import (
    ELLIPSIS,
    NEAR,
    SHORTEST,
    Snippet,
    collapse,
    rank_documents,
    snippet,
)
from lagotto.retrieval.fusion import Candidates, Fused, LegScores
from lagotto.terms import Vocabulary, analyze, content_terms, query_terms

WORDS = st.sampled_from(
    ["dog", "dogs", "the", "truffle", "Truffles", "oak-tree", "東京", "大学", "é"]
)
PROSE = st.lists(WORDS | st.text(max_size=8), max_size=80).map(" ".join)
WIDTHS = st.integers(SHORTEST, 120)
LANGUAGES = st.sampled_from([None, "en", "de", "ja"])


def likeness(word: str, terms: list[str]) -> float:
    return max((weight for _, weight in Vocabulary(terms).corrections(word)), default=0.0)


def highlighted(found: Snippet) -> list[str]:
    return [found.text[span.start : span.end] for span in found.highlights]


@given(text=PROSE, query=PROSE, language=LANGUAGES, width=WIDTHS)
def test_it_is_a_part_of_the_text_and_never_too_long(
    text: str, query: str, language: str | None, width: int
) -> None:
    found = snippet(text, query, language=language, max_chars=width)
    collapsed = " ".join(text.split())
    assert len(found.text) <= width
    if len(collapsed) <= width:
        assert found.text == collapsed
    else:
        assert any(
            found.text == before + part + after
            for before in ("", ELLIPSIS)
            for after in ("", ELLIPSIS)
            for part in [found.text[len(before) : len(found.text) - len(after)]]
            if part and part in collapsed and part.strip(" ") == part
        )


@given(text=PROSE, query=PROSE, language=LANGUAGES, width=WIDTHS)
def test_highlights_are_matching_words_in_order(
    text: str, query: str, language: str | None, width: int
) -> None:
    found = snippet(text, query, language=language, max_chars=width)
    wanted = {
        term for word in content_terms(query_terms(query, (language,))) for term in word.variants
    }
    ends = [0]
    for span in found.highlights:
        assert ends[-1] <= span.start < span.end <= len(found.text)
        terms = analyze(found.text[span.start : span.end], language)
        assert wanted.intersection(terms) or any(likeness(word, terms) >= NEAR for word in wanted)
        ends.append(span.end)


@given(words=st.lists(st.sampled_from(["oak", "hazel", "soil", "rain"]), min_size=30))
def test_words_that_fit_are_not_cut(words: list[str]) -> None:
    found = snippet(" ".join(words), "hazel rain", language="en", max_chars=40)
    assert set(found.text.strip(ELLIPSIS).split()) <= {"oak", "hazel", "soil", "rain"}


@pytest.mark.parametrize("width", range(30, 40))
def test_a_window_has_whole_words_at_both_ends(width: int) -> None:
    words = [f"filler{number:02}" for number in range(40)]
    text = " ".join([*words[:20], "truffles", *words[20:]])
    shown = snippet(text, "truffle", language="en", max_chars=width).text
    assert set(shown.strip(ELLIPSIS).split()) <= {"truffles", *words}


@given(place=st.integers(0, 200), words=st.integers(0, 200), width=st.integers(20, 60))
def test_a_matching_word_is_found_wherever_it_stands(place: int, words: int, width: int) -> None:
    text = " ".join(["filler"] * place + ["(truffles)"] + ["filler"] * words)
    assert highlighted(snippet(text, "truffle", language="en", max_chars=width)) == ["truffles"]


def test_stems_match_and_stop_words_do_not_count() -> None:
    found = snippet(
        "The dog was running with the dogs.", "What do the dogs run for?", language="en"
    )
    assert highlighted(found) == ["dog", "running", "dogs"]


def test_the_part_with_most_different_words_wins() -> None:
    text = "soil soil soil " + "filler " * 40 + "truffle soil " + "filler " * 40
    found = snippet(text, "truffle soil", language="en", max_chars=60)
    assert highlighted(found) == ["truffle", "soil"]
    assert found.text.startswith(ELLIPSIS)
    assert found.text.endswith(ELLIPSIS)


def test_a_number_outweighs_two_words() -> None:
    text = "code and meaning " + "filler " * 40 + "2067 " + "filler " * 40
    found = snippet(text, "What does code 2067 mean?", language="en", max_chars=60)
    assert highlighted(found) == ["2067"]
    named = snippet(text.replace("2067", "lp0"), "What does code lp0 mean?", max_chars=60)
    assert highlighted(named) == ["lp0"]
    three = "code and meaning of errors " + text.partition("meaning ")[2]
    found = snippet(three, "What does error code 2067 mean?", language="en", max_chars=60)
    assert highlighted(found) == ["code", "meaning", "errors"]


@pytest.mark.parametrize("before", range(40))
def test_no_word_is_cut_at_the_beginning(before: int) -> None:
    text = f"beginning {'x' * before} needle " + "and what follows " * 20
    shown = snippet(text, "needle", max_chars=60).text
    assert shown.strip(ELLIPSIS).split()[0] in text.split()


@pytest.mark.parametrize(
    ("query", "marked"),
    [("Philador defense", ["Philidor", "defence"]), ("storm", []), ("defence", ["defence"])],
)
def test_misspelt_words_match_what_they_are_most_like(query: str, marked: list[str]) -> None:
    text = "The Philidor position is a defence that every store of endings has."
    assert highlighted(snippet(text, query, language="en")) == marked


def test_pairs_of_characters_are_shown_as_one_run() -> None:
    assert highlighted(snippet("私は東京大学の学生です", "東京大学", language="ja")) == ["東京大学"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("הכלב מוצא כמהין ביער.", "כמהין"),
        ("कुत्ता ट्रफल ढूँढता है।", "ट्रफल"),
        ("الكلب يجد الكمأة.", "يجد"),
    ],
)
def test_words_of_other_scripts_are_marked_whole(text: str, query: str) -> None:
    found = snippet(text, query, language=None, max_chars=100)
    assert highlighted(found) == [query]


def test_white_space_is_collapsed() -> None:
    assert snippet("a\n\n| b\t|  c ", "b").text == "a | b | c"


def test_without_a_match_it_is_the_beginning() -> None:
    found = snippet("one two three four five", "zebra", max_chars=12)
    assert found == Snippet(text="one two" + ELLIPSIS)


def test_too_short_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_chars is 2"):
        snippet("text", "query", max_chars=2)


def test_a_match_at_either_end_is_marked() -> None:
    shown = snippet("Oak roots feed the truffle", "oak truffle", max_chars=100)
    assert [shown.text[start:end] for start, end in shown.highlights] == ["Oak", "truffle"]


@pytest.mark.parametrize("before", range(15, 26))
def test_an_ellipsis_stands_for_a_single_character_too(before: int) -> None:
    others = [chr(0x4E00 + number) for number in range(before + 20)]
    text = "".join([*others[:before], "\u6771\u4eac", *others[before:]])
    found = snippet(text, "\u6771\u4eac", language="ja", max_chars=40).text
    assert (found[0] == ELLIPSIS) == (found.strip(ELLIPSIS)[0] != text[0])
    assert (found[-1] == ELLIPSIS) == (found.strip(ELLIPSIS)[-1] != text[-1])


def test_what_matches_stays_whole_where_no_word_ends_behind_it() -> None:
    found = snippet("truffle soil/" + "x" * 40, "truffle soil", language="en", max_chars=16)
    assert highlighted(found) == ["truffle", "soil"]


def test_documents_with_equal_scores_are_in_the_order_of_their_ranks() -> None:
    documents = [Document(id=name, text=name) for name in "abc"]
    passages: Any = [SimpleNamespace(key=key, document=one) for key, one in enumerate(documents)]
    legs: dict[Leg, LegScores] = {"text": LegScores(np.array([0.5, 0.5, 0.7]), np.array([3, 2, 1]))}
    groups, _, candidates = collapse(Candidates(np.arange(3), legs, 3), passages)
    scores = np.array([0.5, 0.5, 0.4])
    chunks: Any = {one.ref: None for one in documents}
    found = rank_documents(groups, candidates, Fused(scores, scores, {}), chunks)
    assert [one.document.id for one in found] == ["b", "a", "c"]


@pytest.mark.parametrize(("width", "marked"), [(32, ["truffle", "soil"]), (31, ["truffle"])])
def test_words_that_just_fit_are_shown_together(width: int, marked: list[str]) -> None:
    text = f"{'rain ' * 20}truffle {'.' * 17} soil {'rain ' * 20}"
    found = snippet(text, "truffle soil", language="en", max_chars=width)
    assert highlighted(found) == marked
