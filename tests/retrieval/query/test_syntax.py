from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.errors import QueryError
from lagotto.indexes.text_query import (
    Either,
    Every,
    Match,
    Phrase,
    Prefix,
    Term,
    Without,
    Word,
    holds,
)
from lagotto.prefs import FtsMode
from lagotto.retrieval.query.syntax import ParsedQuery, operand, parse_query, pieces
from lagotto.terms import MAX_QUERY_TERMS, analyze, compounds, content_terms, query_terms
from lagotto.testing.strategies import texts

LENIENT: list[FtsMode] = ["any", "web", "plain", "phrase"]
LANGUAGES = st.lists(st.sampled_from([None, "en", "de", "ru", "tr", "zh"]), max_size=3)
ANY_TEXT = st.one_of(texts(max_words=30), st.text(st.characters(exclude_categories=[])))
SAMPLES = """cat dog foo_bar the or OR AND NOT - " “ ” ' ( ) & | ! <-> <2> < :* * C++ 你好"""
FRAGMENTS = st.sampled_from(SAMPLES.split())
GAPS = st.sampled_from(["", " ", " "])
SIGNS = st.lists(st.tuples(FRAGMENTS, GAPS).map("".join), max_size=12).map("".join)
QUERIES = st.one_of(ANY_TEXT, SIGNS)

fat, rat, cat, dog = (Word((term,)) for term in ("fat", "rat", "cat", "dog"))


def phrase(*terms: str) -> Phrase:
    return Phrase((terms,))


def read(text: str, mode: FtsMode) -> ParsedQuery:
    return parse_query(text, mode, ["en"])


def scored(parsed: ParsedQuery) -> list[str]:
    return [term.text for word in parsed.words for term in word]


def refused(text: str) -> QueryError:
    with pytest.raises(QueryError) as info:
        read(text, "strict")
    return info.value


# any


def test_a_repeated_word_weighs_more() -> None:
    heat, plate = parse_query("heat in a plate", "any", ["en"]).words
    assert (heat, plate) == ((Term("heat"),), (Term("plate"),))
    words = parse_query("Heat transfer: heat, heated plates, the plate", "any", ["en"]).words
    # (8 + 1) * 3 / (8 + 3) for heat, 1.8 for plate
    assert [(word[0].text, round(word[0].weight, 3)) for word in words] == [
        ("heat", 2.455),
        ("transfer", 1.0),
        ("plate", 1.8),
    ]


def test_repeated_words_beyond_the_limit_still_count() -> None:
    many = " ".join(f"w{number}" for number in range(MAX_QUERY_TERMS + 5))
    words = parse_query(f"{many} w0 w0", "any", ["en"]).words
    assert len(words) == MAX_QUERY_TERMS
    assert words[0][0].weight > words[1][0].weight == 1.0


def test_any_takes_the_content_words_and_restricts_nothing() -> None:
    parsed = read('When was "Stargate Atlantis" cancelled? -not', "any")
    assert scored(parsed) == ["stargat", "atlanti", "cancel"]
    assert (parsed.where, parsed.excluded, parsed.has_text) == (None, None, True)


def test_stop_words_score_only_if_there_is_nothing_else() -> None:
    assert scored(read("the who", "any")) == ["the", "who"]
    assert not read("?!", "any").has_text


def test_words_have_a_variant_for_each_language() -> None:
    parsed = parse_query("cancelled houses", "plain", ["en", None])
    assert parsed.words == (
        (Term("cancel"), Term("cancelled")),
        (Term("hous"), Term("houses")),
    )
    assert parsed.where == Every((Word(("cancel", "cancelled")), Word(("hous", "houses"))))
    quoted = parse_query('"cancelled houses"', "web", ["en", None, "en-GB"])
    assert quoted.where == Phrase((("cancel", "hous"), ("cancelled", "houses")))


# web


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("The fat rats", Every((fat, rat))),
        ('"fat rat" or cat dog', Either((phrase("fat", "rat"), Every((cat, dog))))),
        ("fat OR rat Or cat", Either((fat, rat, cat))),
        ("cat -dog", Every((cat, Without(dog)))),
        ('cat -"fat rat"', Every((cat, Without(phrase("fat", "rat"))))),
        ("cat or -dog", Either((cat, Without(dog)))),
        ("cat or", cat),
        ("or cat", cat),
        ("cat or or dog", Either((cat, dog))),
        ("cat or the", cat),
        ("cat -the", cat),
        ("the who", Every((Word(("the",)), Word(("who",))))),
        ("the who -dog", Every((Word(("the",)), Word(("who",)), Without(dog)))),
        ('"the"', Word(("the",))),
        ('cat "the"', Every((cat, Word(("the",))))),
        ("cat cat", cat),
        ("“fat rat” „fat cat“", Every((phrase("fat", "rat"), phrase("fat", "cat")))),
        ("«fat rat» or »fat cat«", Either((phrase("fat", "rat"), phrase("fat", "cat")))),
        ("「你好世」", phrase("你好", "好世")),
        ('什么是"fat rat"', Every((phrase("什么", "么是"), phrase("fat", "rat")))),
        ("fat - rat", Every((fat, rat))),
        ("fat-rat", phrase("fat", "rat")),
        ("foo_bar C++", Every((phrase("foo", "bar"), phrase("c", "plusplus")))),
        ("AT&T", phrase("at", "t")),
        ("fat,rat;(cat)/dog", Every((fat, rat, cat, dog))),
        ("--fat", fat),
        ("(-fat) cat", Every((Without(fat), cat))),
        ('24" cat', Every((Word(("24",)), cat))),
        ('"fat rat', Every((fat, rat))),
        ('"" & ( <-> |', None),
        ("don't rat", rat),
        ("", None),
    ],
)  # fmt: skip
def test_web(query: str, where: Match | None) -> None:
    assert read(query, "web").where == where


def test_web_scores_what_is_wanted_and_tells_what_is_not() -> None:
    parsed = read('fat "black cats" -rat -"old dog" or', "web")
    assert scored(parsed) == ["fat", "black", "cat"]
    assert parsed.excluded == Either((rat, phrase("old", "dog")))
    assert parsed.text == 'fat "black cats" or'
    only = read("-rat", "web")
    assert (only.words, only.where, only.excluded, only.has_text) == ((), Without(rat), rat, False)


def test_a_negation_among_alternatives_excludes_nothing_for_sure() -> None:
    assert read("cat or -dog", "web").excluded is None
    assert read("cat -Xenon", "web").excluded == Word(("xenon",))


# plain and phrase


def test_plain_wants_all_content_words() -> None:
    assert read("The Fat & Rats:C -dog", "plain").where == Every((fat, rat, Word(("c",)), dog))
    assert read("the who", "plain").where == Every((Word(("the",)), Word(("who",))))
    assert read("foo_bar, the cat!", "plain").where == Every((phrase("foo", "bar"), cat))
    assert read("?", "plain").where is None


def test_phrase_wants_all_words_in_order() -> None:
    parsed = read("The Fat & Rats", "phrase")
    assert parsed.where == phrase("the", "fat", "rat")
    assert scored(parsed) == ["fat", "rat"]
    assert read("Rats", "phrase").where == rat
    assert read("", "phrase").where is None


# strict


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("fat & rats", Every((fat, rat))),
        ("fat AND NOT rat OR cat", Either((Every((fat, Without(rat))), cat))),
        ("fat | rat & cat", Either((fat, Every((rat, cat))))),
        ("(fat | rat) & cat", Every((Either((fat, rat)), cat))),
        ("fat<->rat&!cat", Every((phrase("fat", "rat"), Without(cat)))),
        ("(fat) <-> 'rat cat' <-> foo_bar", phrase("fat", "rat", "cat", "foo", "bar")),
        ("'fat rats'", phrase("fat", "rat")),
        ("'it''s'", phrase("it", "s")),
        ('"fat rat" | “cat dog”', Either((phrase("fat", "rat"), phrase("cat", "dog")))),
        ("don't", phrase("don", "t")),
        ("the", Word(("the",))),
        ("and", Word(("and",))),
        ("cancell:* | 'supern':*", Either((Prefix("cancel"), Prefix("supern")))),
        ("!!fat", fat),
        ("!(!fat)", fat),
        ("!!!fat", Without(fat)),
        ("fat & (rat & (cat & !dog))", Every((fat, rat, cat, Without(dog)))),
        ("fat & fat", fat),
        ("a:b", phrase("a", "b")),
    ],
)
def test_strict(query: str, where: Match) -> None:
    assert read(query, "strict").where == where


def test_strict_scores_what_is_not_negated() -> None:
    parsed = read("fat & !(rat | !cat) & dog:*", "strict")
    assert scored(parsed) == ["fat", "cat"]
    assert parsed.excluded == Either((rat, Without(cat)))
    assert parsed.text == "fat cat dog"
    assert read("!fat | rat", "strict").excluded is None


def test_a_prefix_alone_has_text_but_no_scores() -> None:
    parsed = read("supern:*", "strict")
    assert (parsed.words, parsed.has_text, parsed.text) == ((), True, "supern")


def test_a_part_of_stop_words_scores_beside_others() -> None:
    assert scored(read('hamlet or "to be"', "web")) == ["hamlet", "to", "be"]
    assert scored(read("hamlet | the", "strict")) == ["hamlet", "the"]
    assert scored(read("the hamlet", "web")) == scored(read("the hamlet", "plain")) == ["hamlet"]


def test_a_prefix_is_stemmed_in_each_language() -> None:
    where = parse_query("houses:*", "strict", ["en", None]).where
    assert where == Either((Prefix("hous"), Prefix("houses")))


@pytest.mark.parametrize(
    ("query", "position", "problem"),
    [
        ("", 0, "the query is empty"),
        ("  ", 0, "the query is empty"),
        ("fat &", 5, "expected a word after this"),
        ("& fat", 0, "expected a word before &"),
        ("fat | | rat", 6, "expected a word before |"),
        ("fat AND OR rat", 8, "expected a word before OR"),
        ("fat & ()", 7, "expected a word before )"),
        ("fat rat", 4, "expected an operator (& | <->) before rat"),
        ("fat !rat", 4, "expected an operator (& | <->) before !"),
        ("(fat rat)", 5, "expected an operator (& | <->) before rat"),
        ("fat & (rat | cat", 6, "this ( is not closed"),
        ("fat)", 3, "there is no ( for this )"),
        ("fat <2> rat", 4, "<2> is not an operator; <-> joins adjacent words"),
        ("fat <x> rat", 4, "<x> is not an operator"),
        ("fat > rat", 4, "> is not an operator"),
        ("(fat | rat) <-> cat", 12, "<-> joins only words and quoted phrases"),
        ("fat <-> !rat", 4, "<-> joins only words and quoted phrases"),
        ("fat <-> rat:*", 4, "<-> joins only words and quoted phrases"),
        ("fat & 'rat", 6, "the quotation that begins with ' does not end"),
        ("fat & “rat", 6, "the quotation that begins with “ does not end"),
        ("fat & %%", 6, "there is no letter or digit in %%"),
        ("fat & ''", 6, "there is no letter or digit in ''"),
        ("fat*", 3, "a prefix is written as word:*"),
        ("fat:AB", 3, ":AB is not supported"),
        ("fat_rat:*", 7, ":* needs a single word before it, not the 2 of fat_rat"),
    ],
)
def test_strict_errors_point_at_the_place(query: str, position: int, problem: str) -> None:
    error = refused(query)
    assert error.position == position
    assert error.problem.startswith(problem)


def test_the_message_shows_the_place() -> None:
    lines = str(refused("fat rat")).splitlines()
    assert lines[0].endswith("before rat, at character 5:")
    assert lines[2].index("^") == lines[1].index("rat")
    long = str(refused("fat & " * 30 + "\n rat cat" + " & dog" * 30)).splitlines()
    assert len(long) == 3
    assert long[1][long[2].index("^") :].startswith("cat & dog")
    assert max(map(len, long)) < 110


def test_errors_can_be_pickled() -> None:
    error = refused("fat rat")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


# limits


@pytest.mark.parametrize("mode", LENIENT)
@pytest.mark.parametrize("part", ["(", "-", '"', "“", "«", "'", "cat ", "or ", "-x ", "你"])
def test_long_nonsense_is_no_problem(part: str, mode: FtsMode) -> None:
    parsed = read(part * 10_000, mode)
    assert len(parsed.words) <= MAX_QUERY_TERMS


def test_only_the_first_words_count() -> None:
    numbers = " ".join(map(str, range(10_000)))
    for mode in ("web", "plain"):
        where = parse_query(numbers, mode).where
        assert isinstance(where, Every)
        assert list(where.parts) == [Word((str(n),)) for n in range(MAX_QUERY_TERMS)]
    where = parse_query(numbers, "phrase").where
    assert where == Phrase((tuple(map(str, range(MAX_QUERY_TERMS))),))


def test_strict_says_so_if_there_is_too_much() -> None:
    assert "more than 256 words" in refused(" | ".join(map(str, range(257)))).problem
    assert len(read(" | ".join(map(str, range(256))), "strict").words) == 256
    assert "nested more than 50 deep" in refused("(" * 100_000).problem
    assert "expected a word" in refused("!" * 100_000).problem
    assert read("!" * 100_000 + "fat", "strict").where == fat
    assert read("(" * 50 + "fat" + ")" * 50, "strict").where == fat
    after_others = "(fat) & (fat) & " + "(" * 51 + "fat" + ")" * 51
    assert "nested more than 50 deep" in refused(after_others).problem


# for every text


@given(QUERIES, st.sampled_from(LENIENT), LANGUAGES)
def test_any_text_is_a_query(text: str, mode: FtsMode, languages: list[str | None]) -> None:
    parsed = parse_query(text, mode, languages)
    assert parsed.has_text == bool(parsed.words) == bool(query_terms(parsed.text))
    if mode == "any" or not analyze(text):
        assert parsed.where is None


@given(ANY_TEXT, st.sampled_from(LENIENT), LANGUAGES)
def test_a_text_is_found_by_itself(text: str, mode: FtsMode, languages: list[str | None]) -> None:
    """A text without signs for `web` meets the condition that it makes, whatever its language."""
    plain = text.replace("-", " ")
    where = parse_query(plain, mode, languages).where
    for language in languages or [None]:
        assert where is None or holds(where, analyze(plain, language))


@given(SIGNS, st.lists(st.sampled_from(analyze(SAMPLES))))
def test_whatever_web_finds_has_a_word_that_scores(text: str, terms: list[str]) -> None:
    parsed = read(text, "web")
    if parsed.where and "-" not in text and holds(parsed.where, terms):
        assert not set(scored(parsed)).isdisjoint(terms)


@given(QUERIES, LANGUAGES)
def test_any_scores_content_words(text: str, languages: list[str | None]) -> None:
    words = parse_query(text, "any", languages).words
    expected = content_terms(query_terms(text, languages))
    assert {tuple(term.text for term in word) for word in words} == {
        *(term.variants for term in expected),
        *((name,) for name in compounds(text)),
    }


@given(ANY_TEXT)
def test_pieces_keep_all_terms(text: str) -> None:
    assert [term for piece in pieces(text) for term in analyze(piece)] == analyze(text)


@given(QUERIES, LANGUAGES)
def test_strict_reads_or_points(text: str, languages: list[str | None]) -> None:
    problem = None
    try:
        parsed = parse_query(text, "strict", languages)
    except QueryError as error:
        problem = error
    if problem:
        assert 0 <= problem.position <= len(text)
        assert problem.query == text
    else:
        assert parsed.where is not None
        assert parsed.has_text or not parsed.words


TREES = st.recursive(
    st.sampled_from(["a", "b", "c", "d"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["&", "|"]), inner, inner), st.tuples(st.just("!"), inner)
    ),
    max_leaves=8,
)
Tree = str | tuple[str, "Tree"] | tuple[str, "Tree", "Tree"]


def written(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    if len(tree) == 2:
        return f"!({written(tree[1])})"
    return f"({written(tree[1])}) {tree[0]} ({written(tree[2])})"


def meant(tree: Tree, terms: list[str]) -> bool:
    if isinstance(tree, str):
        return tree in terms
    if len(tree) == 2:
        return not meant(tree[1], terms)
    first, second = meant(tree[1], terms), meant(tree[2], terms)
    return (first and second) if tree[0] == "&" else (first or second)


@given(TREES, st.lists(st.sampled_from("abcd"), max_size=4))
def test_strict_means_what_it_says(tree: Tree, terms: list[str]) -> None:
    parsed = parse_query(written(tree), "strict")
    assert parsed.where is not None
    assert holds(parsed.where, terms) == meant(tree, terms)
    if parsed.excluded is not None and holds(parsed.excluded, terms):
        assert not meant(tree, terms)


def test_an_operand_has_as_many_terms_in_each_language() -> None:
    found = operand("houses foo_bar", ["en", None])
    assert found is not None
    assert found.variants == (("hous", "foo", "bar"), ("houses", "foo", "bar"))
    assert operand("...", []) is None


@pytest.mark.parametrize("word", ["co\u00adoperate", "e\u0301te\u0301", "नमस्ते"])
def test_marks_and_invisible_characters_stand_inside_of_words(word: str) -> None:
    assert pieces(f"({word})") == [word]
