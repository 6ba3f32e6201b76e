from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.retrieval.query.expansion import (
    Expander,
    Expansion,
    LlmExpander,
    answer_patterns,
    declarative,
    feedback_candidates,
    feedback_terms,
    parse_list,
    parse_passage,
)
from lagotto.terms import analyze
from lagotto.testing.strategies import texts

# answers


QUESTIONS = [
    ("When was Stargate Atlantis cancelled?", "Stargate Atlantis was cancelled in", "en time"),
    ("when was Ada Lovelace born", "Ada Lovelace was born in", "en time"),
    ("When did Apple release the iPhone?", "Apple release the iPhone in", "en time"),
    ("In what year was the United States founded?", "the United States was founded in", "en time"),
    ("When was the ship named?", "the ship was named in", "en time"),
    ("When was the first world war?", "the first world war was in", "en time"),
    ("Where is the Louvre located?", "the Louvre is located in", "en place"),
    ("Where did Super Bowl 50 take place?", "Super Bowl 50 take place in", "en place"),
    ("In which city was Mozart born?", "Mozart was born in", "en place"),
    ("Who wrote Pride and Prejudice?", "wrote Pride and Prejudice", "en person"),
    ("Who is the president of France?", "the president of France is", "en person"),
    ("Who was elected president in 1980?", "was elected president in 1980", "en person"),
    ("Whom did Obama marry?", "Obama marry", "en person"),
    ("How many moons does Mars have?", "Mars have moons", "en number"),
    ("How many planets are there in the solar system?", "planets in the solar system", "en number"),
    ("How many people live in Berlin?", "people live in Berlin", "en number"),
    ("How much food does a cat eat?", "a cat eat food", "en number"),
    ("How old is the universe?", "the universe is old", "en number"),
    ("How much is a ticket?", "a ticket is", "en number"),
    ("Why is the sky blue?", "the sky blue is because", "en reason"),
    ("Why was Rome sacked?", "Rome was sacked because", "en reason"),
    ("Why did Rome fall?", "Rome fall because", "en reason"),
    ("What is photosynthesis?", "photosynthesis is", "en definition"),
    ("What was the Hanse?", "the Hanse was", "en definition"),
    ("What does HTTP mean?", "HTTP means", "en definition"),
    ("What is meant by late chunking?", "late chunking means", "en definition"),
    ("What's a lagotto?", "a lagotto is", "en definition"),
    ("How is steel made?", "steel is made by", "en manner"),
    ("How do I configure logging?", "to configure logging", "en manner"),
    ("How to bake bread", "to bake bread", "en manner"),
    ("How does a dog find truffles?", "a dog find truffles by", "en manner"),
    ("Warum wurde Atlantis abgesetzt?", "Atlantis wurde abgesetzt weil", "de reason"),
    ("Was ist ein Lagotto?", "ein Lagotto ist", "de definition"),
    ("Wie funktioniert ein Motor?", "ein Motor funktioniert indem", "de manner"),
    ("Wie hoch ist der Turm?", "der Turm ist", "de number"),
    ("Pourquoi le ciel est bleu ?", "le ciel est bleu parce que", "fr reason"),
    ("Qu'est-ce que la photosynthèse ?", "la photosynthèse est", "fr definition"),
    ("Comment faire du pain ?", "faire du pain en", "fr manner"),
    ("¿Por qué cayó Roma?", "cayó Roma porque", "es reason"),
    ("¿Qué es un perro?", "un perro es", "es definition"),
    ("¿Cómo se hace el pan?", "se hace el pan mediante", "es manner"),
    ("Почему небо голубое?", "небо голубое потому что", "ru reason"),
    ("Что такое фотосинтез?", "фотосинтез это", "ru definition"),
    ("Как работает мотор?", "работает мотор с помощью", "ru manner"),
    ("Wann wurde Bremen gegründet?", "Bremen wurde im Jahr gegründet", "de time"),
    ("Wo liegt Köln?", "Köln liegt in", "de place"),
    ("Wer schrieb den Faust?", "schrieb den Faust", "de person"),
    ("Quand est-ce que le Louvre a été construit ?", "le Louvre a été construit en", "fr time"),
    ("Où se trouve le Louvre ?", "se trouve le Louvre à", "fr place"),
    ("¿Cuándo se fundó Lima?", "se fundó Lima en", "es time"),
    ("Когда был основан Петербург?", "был основан Петербург в", "ru time"),
    ("How long did the war last?", "the war last", "en number"),
    ("How much snow fell in May?", "snow fell in May", "en number"),
    ("Wie viele Beine hat ein Hund?", "Beine hat ein Hund", "de number"),
    ("Wie kann man Brot backen?", "man Brot backen", "de manner"),
    ("Qui a écrit Candide ?", "a écrit Candide", "fr person"),
    ("Combien de lacs y a-t-il ?", "lacs y a-t-il", "fr number"),
    ("¿Dónde está Lima?", "está Lima en", "es place"),
    ("¿Quién escribió el Quijote?", "escribió el Quijote", "es person"),
    ("¿Cuántos lagos hay?", "lagos hay", "es number"),
    ("Где находится Байкал?", "находится Байкал в", "ru place"),
    ("Кто написал роман?", "написал роман", "ru person"),
    ("Сколько мячей?", "мячей", "ru number"),
]  # fmt: skip
"""Questions, the statements that they become, and the language and kind of their answers."""

TYPICAL = {
    "de definition": "heißt",
    "de manner": "indem",
    "de number": "zwei",
    "de person": "autor",
    "de place": "liegt",
    "de reason": "weil",
    "de time": "januar",
    "en definition": "called",
    "en manner": "must",
    "en number": "two",
    "en person": "director",
    "en place": "located",
    "en reason": "because",
    "en time": "january",
    "es definition": "significa",
    "es manner": "mediante",
    "es number": "dos",
    "es person": "autor",
    "es place": "situado",
    "es reason": "porque",
    "es time": "enero",
    "fr definition": "appelé",
    "fr manner": "avec",
    "fr number": "deux",
    "fr person": "auteur",
    "fr place": "situé",
    "fr reason": "parce",
    "fr time": "janvier",
    "ru definition": "называется",
    "ru manner": "помощью",
    "ru number": "два",
    "ru person": "автор",
    "ru place": "расположен",
    "ru reason": "потому",
    "ru time": "января",
}
"""A word near answers of each kind, and of no other."""


@pytest.mark.parametrize(("question", "statement", "kind"), QUESTIONS)
def test_questions_become_statements(question: str, statement: str, kind: str) -> None:
    assert declarative(question) == statement
    (found,) = answer_patterns(question, [kind[:2]])
    terms = {term.text for term in found}
    words = {name: set(analyze(word, kind[:2])) for name, word in TYPICAL.items()}
    alike = {name for name, typical in words.items() if name[:2] == kind[:2] and typical <= terms}
    assert alike == {kind}


@pytest.mark.parametrize(
    "query", ["", "?", "Who?", "solar panels", "What happened?", "Which team won?", "wo"]
)
def test_other_queries_stay_what_they_are(query: str) -> None:
    assert declarative(query) is None
    assert answer_patterns(query, ["en"]) == ()


def test_words_near_answers_are_alternatives_with_little_weight() -> None:
    (word,) = answer_patterns("When was it cancelled?", ["en"])
    assert {term.text for term in word} >= {"januari", "decemb", "year"}
    assert {term.weight for term in word} == {0.2}
    (several,) = answer_patterns("When was it cancelled?", ["en", None])
    assert {"januari", "january"} <= {term.text for term in several}
    (numbers,) = answer_patterns("Сколько мячей?", ["ru"])
    assert set(analyze("тысяч миллион", "ru")) <= {term.text for term in numbers}


@given(st.one_of(texts(), st.text(st.characters(exclude_categories=[]))))
def test_any_text_may_be_asked(text: str) -> None:
    for query in (text, f"When was {text}", f"How many {text} does {{0}} have?"):
        statement = declarative(query)
        assert (statement is None) == (answer_patterns(query) == ())


def test_long_texts_are_no_questions() -> None:
    assert declarative("When was " + "it " * 50_000) is None


# feedback

PASSAGES = [
    "The whale is a mammal; whales breathe air through a blowhole.",
    "A whale lives in the ocean and has a blowhole.",
    "The ocean is deep and the ocean is cold.",
]
ENGLISH = ["en", "en", "en"]
RARITIES = {"whale": 3.0, "blowhol": 5.0, "ocean": 2.0}


def test_candidates_are_what_passages_have_in_common() -> None:
    assert feedback_candidates(PASSAGES, ENGLISH) == ["blowhol", "ocean", "whale"]
    assert feedback_candidates(["The whale sings."], ["en"]) == ["sing", "whale"]
    assert feedback_candidates([], []) == []


def test_feedback_weighs_share_score_and_rarity() -> None:
    found = feedback_terms(PASSAGES[:2], [3.0, 1.0], ENGLISH[:2], RARITIES, 10)
    # passage 1: whale 2/6, blowhole 1/6; passage 2: whale 1/4, ocean 1/4, blowhole 1/4
    whale = (0.75 * 2 / 6 + 0.25 / 4) * 3
    blowhole = (0.75 / 6 + 0.25 / 4) * 5
    ocean = 0.25 / 4 * 2
    weights = {term.text: term.weight for (term,) in found}
    assert list(weights) == ["blowhol", "whale", "ocean"]
    assert weights["blowhol"] == pytest.approx(0.3)
    assert weights["whale"] == pytest.approx(0.3 * whale / blowhole)
    assert weights["ocean"] == pytest.approx(0.3 * ocean / blowhole)


def test_feedback_leaves_out_what_is_known_and_keeps_to_the_count() -> None:
    found = feedback_terms(PASSAGES, [1.0, 1.0, 1.0], ENGLISH, RARITIES, 1, known={"blowhol"})
    assert [term.text for (term,) in found] == ["whale"]
    assert feedback_terms(PASSAGES, [0.0, -1.0, 0.0], ENGLISH, RARITIES, 3) != ()
    assert feedback_terms(PASSAGES, [1.0, 1.0, 1.0], ENGLISH, {}, 3) == ()
    assert feedback_terms([], [], [], RARITIES, 3) == ()


@given(st.lists(st.tuples(texts(max_words=20), st.floats(-1, 1)), max_size=4), st.integers(1, 5))
def test_feedback_of_any_passages(passages: list[tuple[str, float]], count: int) -> None:
    bodies, scores = [body for body, _ in passages], [score for _, score in passages]
    languages = ["en"] * len(bodies)
    idf = dict.fromkeys(feedback_candidates(bodies, languages), 1.0)
    found = feedback_terms(bodies, scores, languages, idf, count)
    assert len(found) <= count
    weights = [term.weight for (term,) in found]
    assert weights == sorted(weights, reverse=True)
    assert all(0 <= weight <= 0.3 for weight in weights)
    assert {term.text for (term,) in found} <= idf.keys()


# a model

TWO = ["when did Atlantis end", "Stargate Atlantis last season"]


@pytest.mark.parametrize(
    "answer",
    [
        "when did Atlantis end\nStargate Atlantis last season",
        "1. when did Atlantis end\n2. Stargate Atlantis last season\n",
        "Here are 2 queries:\n\n(1) when did Atlantis end\n2) “Stargate Atlantis last season”",
        "- when did Atlantis end\n* **Stargate Atlantis last season**",
        'Query 1: when did Atlantis end\nQuery 2: "Stargate Atlantis last season"',
        '["when did Atlantis end", "Stargate Atlantis last season"]',
        '```json\n{"queries": ["when did Atlantis end", "Stargate Atlantis last season"]}\n```',
        'Sure:\n[{"id": 1, "query": "when did Atlantis end"},\n'
        ' {"id": 2, "query": "Stargate Atlantis last season"}]',
        '{"1": "when did Atlantis end", "2": "Stargate Atlantis last season"}',
        "<think>\nWhat now?\n</think>\n```\n1: when did Atlantis end\n\n"
        "2: when did Atlantis end\n3: Stargate Atlantis last season\n```",
    ],
)
def test_lists_are_read_however_they_are_written(answer: str) -> None:
    assert parse_list(answer) == TWO


@pytest.mark.parametrize("answer", ["", "```\n```", "<think>never ends", "[]", '{"a": 1}', "Well:"])
def test_nothing_is_in_an_empty_answer(answer: str) -> None:
    assert [item for item in parse_list(answer) if item.isalnum()] == []


def test_broken_json_is_no_error() -> None:
    assert parse_list('["a", "b') == ['["a", "b']
    assert len(parse_list("[" * 100_000)) == 1


def test_passages_lose_their_wrapping() -> None:
    assert parse_passage('```\nPassage: "It ended\nin 2009."\n```') == "It ended in 2009."
    assert parse_passage("It's over.") == "It's over."
    assert parse_passage("<think>hm</think> ") == ""


@given(st.text())
def test_any_answer_can_be_read(answer: str) -> None:
    assert all(parse_list(answer))
    assert "\n" not in parse_passage(answer)


class Model:
    """Answers by the first words of the prompt and remembers what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if prompt.startswith("Write one short passage"):
            return "It was cancelled in 2009."
        return "1. WHEN DID IT END?\n2. end of it\n3. last season\n4. finale"


async def test_a_model_is_asked_for_queries_and_passages() -> None:
    fake = Model()
    expander: Expander = LlmExpander(fake.complete, queries=2, passages=2)
    expansion = await expander.expand("When did it end?")
    assert expansion == Expansion(
        queries=("end of it", "last season"), passages=("It was cancelled in 2009.",)
    )
    assert len(fake.prompts) == 3
    assert all("<query>\nWhen did it end?\n</query>" in prompt for prompt in fake.prompts)
    assert sum("Write 2 other search queries" in prompt for prompt in fake.prompts) == 1


async def test_a_model_is_not_asked_for_what_is_not_wanted() -> None:
    fake = Model()
    assert await LlmExpander(fake.complete, queries=0, passages=0).expand("{x}") == Expansion()
    assert fake.prompts == []
    only = await LlmExpander(fake.complete, passages=0).expand("{x} " * 10_000)
    assert only.passages == ()
    assert len(only.queries) == 3
    assert len(fake.prompts[0]) < 5_000
    usual = Model()
    await LlmExpander(usual.complete).expand("When did it end?")
    assert len(usual.prompts) == 2, "one for queries, one for a passage"
