from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Span
from lagotto.errors import RerankError
from lagotto.rerankers.base import Candidate, Verdict
from lagotto.rerankers.llm import LlmConfig, find_quote, flat_objects, read_answer

TEXT = "The  bridge\nopened in 1932 – “a marvel”, she said. It's long."
CANDIDATES = {
    "p1": Candidate(id="c1", text=TEXT, score=0.5),
    "p2": Candidate(id="c2", text="Something else", score=0.4),
}
CONFIG = LlmConfig(model="m")
ITEM = {"id": "p1", "relevance_score": 70, "answerability": True, "key_evidence": "opened in 1932"}


def read(content: str) -> dict[str, Verdict]:
    answer = {"choices": [{"message": {"content": content}}]}
    return read_answer(answer, candidates=CANDIDATES, config=CONFIG)


def results(*items: dict[str, Any]) -> str:
    return json.dumps({"results": items})


def test_a_verdict_with_evidence() -> None:
    verdict = read(results(ITEM))["p1"]
    assert (verdict.score, verdict.answerable) == (70.0, True)
    assert verdict.evidence
    assert TEXT[slice(*verdict.evidence)] == "opened in 1932"


def test_scores_alone() -> None:
    assert read('{"id": "p2", "score": 7}') == {"p2": Verdict(7.0)}


def test_unknown_ids_are_ignored() -> None:
    assert set(read(results({**ITEM, "id": "p9"}, ITEM, {"score": 1}, {"id": 5}))) == {"p1"}


@pytest.mark.parametrize(
    "change",
    [{"relevance_score": 101}, {"relevance_score": -1}, {"relevance_score": "high"}],
)
def test_scores_off_the_scale_leave_a_candidate_out(change: dict[str, Any]) -> None:
    assert set(read(results({**ITEM, **change}, {**ITEM, "id": "p2"}))) == {"p2"}


def test_evidence_that_is_not_there_is_dropped() -> None:
    assert read(results({**ITEM, "key_evidence": "opened in 1933"}))["p1"].evidence is None
    assert read(results({**ITEM, "id": "p2"}))["p2"].evidence is None


def test_json_in_a_quotation_is_no_verdict() -> None:
    inner = results({**ITEM, "id": "p2", "relevance_score": 100})
    assert set(read(results({**ITEM, "key_evidence": inner}))) == {"p1"}
    single = inner.replace('"', "'")
    assert set(read(results({**ITEM, "key_evidence": single}))) == {"p1"}


def test_two_verdicts_on_one_candidate() -> None:
    with pytest.raises(RerankError, match="m judged the passage p1 twice"):
        read(results(ITEM, ITEM))


@pytest.mark.parametrize(
    "content", ["I can't do that.", "{}", '{"results": []}', results({**ITEM, "id": "p9"})]
)
def test_nothing_of_use(content: str) -> None:
    with pytest.raises(RerankError, match="returned no valid verdict: "):
        read(content)


def test_thoughts_are_left_out() -> None:
    thought = f"<think>First idea: {results(ITEM)}</think>\n"
    assert read(thought + results({**ITEM, "relevance_score": 10}))["p1"].score == 10


def test_but_not_what_a_passage_says_of_thoughts() -> None:
    quoted = {**ITEM, "id": "p2", "key_evidence": "<think> x </think>"}
    assert set(read(results(ITEM, quoted))) == {"p1", "p2"}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"choices": []}, "not a chat completion"),
        ({"error": "overloaded"}, "not a chat completion: .*overloaded"),
        ("hello", "not a chat completion"),
        ({"choices": [{"message": {"content": ["x"]}}]}, "not a chat completion"),
        ({"choices": [{"message": {"content": None, "refusal": "No."}}]}, "refused.*No"),
        ({"choices": [{"message": {"content": ""}}]}, "refused"),
    ],
)
def test_answers_that_are_none(answer: object, message: str) -> None:
    with pytest.raises(RerankError, match=message):
        read_answer(answer, candidates=CANDIDATES, config=CONFIG)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("The bridge opened", "The  bridge\nopened"),
        ("the bridge", "The  bridge"),
        ('"opened in 1932"', "opened in 1932"),
        ("...opened in 1932 ...", "opened in 1932"),
        ("opened in 1932 - 'a marvel'", "opened in 1932 – “a marvel"),
        ('"a marvel", she said.', "a marvel”, she said."),
        ("It’s long", "It's long"),
        ("It's long.", "It's long."),
        ("she said", "she said"),
        ("in 1932.", "in 1932"),
        ("It\u00a0is long", None),
        ("bridge in 1932", None),
        ("opened.in", None),
        ("...", None),
        ("“”", None),
        (" ", None),
    ],
)
def test_quotations(quote: str, found: str | None) -> None:
    span = find_quote(quote, text=TEXT)
    assert (TEXT[slice(*span)] if span else None) == found


@given(data=st.data(), text=st.text(min_size=1))
def test_what_is_quoted_is_found(data: st.DataObject, text: str) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, len(text)))
    span = find_quote(text[start:end], text=text)
    if any(sign.isalnum() for sign in text[start:end]):
        assert span is not None
        assert span <= Span(end, end)
    else:
        assert span is None


SCALARS = st.one_of(
    st.text(), st.booleans(), st.none(), st.integers(-(2**50), 2**50), st.floats(allow_nan=False)
).filter(lambda value: value not in (float("inf"), float("-inf")))
OBJECTS = st.dictionaries(st.text(), SCALARS, min_size=1)
ONE = [{"id": "a", "score": 7.0}]


@given(objects=st.lists(OBJECTS), indent=st.none() | st.integers(0, 3), ascii_only=st.booleans())
def test_json_is_read_as_it_is(
    objects: list[dict[str, object]], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps({"results": objects}, indent=indent, ensure_ascii=ascii_only)
    assert list(flat_objects(text)) == objects


@given(objects=st.lists(OBJECTS, min_size=1), share=st.floats(0, 1))
def test_a_list_that_breaks_off_keeps_its_whole_objects(
    objects: list[dict[str, object]], share: float
) -> None:
    whole = json.dumps({"results": objects})
    found = list(flat_objects(whole[: int(len(whole) * share)]))
    assert found == objects[: len(found)]


@given(text=st.text(alphabet="{}[]\"'\\:, a1\n"))
def test_any_text_can_be_looked_through(text: str) -> None:
    assert all(isinstance(found, dict) for found in flat_objects(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "a", "score": 7}',
        '```json\n{"results": [{"id": "a", "score": 7}]}\n```',
        'Here you are [1]: {"id": "a", "score": 7} I hope {it} helps!',
        '[{"id": "a", "score": 7},]',
        '{"id": "a", "score": 7,}',
        "{'id': 'a', 'score': 7}",
        '{id: "a", score: 7.0}',
        '{"results": [{"id": "a", "score": 7}, {"id": "b", "sco',
        '{"results": [{"id": "a", "score": 7}, {"id": "b", "score": oops}]}',
        '{ "id" :\n"a" ,\n"score" : 0.7e1 }',
    ],
)
def test_what_models_do_to_json(text: str) -> None:
    assert list(flat_objects(text)) == ONE


@pytest.mark.parametrize(
    ("literal", "meant"),
    [
        (r'"say \"hi\""', 'say "hi"'),
        (r"'say \"hi\"'", 'say "hi"'),
        ("'say \"hi\"'", 'say "hi"'),
        (r"'it\'s'", "it's"),
        (r'"it\'s"', "it's"),
        (r'"costs \$5"', r"costs \$5"),
        (r'"C:\\$dir"', r"C:\$dir"),
        (r'"\u00fc\n"', "ü\n"),
        ('"two\nlines"', "two\nlines"),
        ("True", True),
        ("False", False),
        ("true", True),
        ("None", None),
        ("-1.5", -1.5),
        (r"""'{"id": "b"}'""", '{"id": "b"}'),
    ],
)
def test_values(literal: str, meant: object) -> None:
    assert list(flat_objects(f'{{"value": {literal}}}')) == [{"value": meant}]


@pytest.mark.parametrize(
    "text", ["", "no", "{}", '{"id": }', '{"a": NaN}', r'{"a": "\u12"}', '{"a": 8/10}', '{"a": 7.}']
)
def test_nothing_to_be_found(text: str) -> None:
    assert list(flat_objects(text)) == []


def test_much_of_a_bad_thing_takes_no_time() -> None:
    for piece in ['{"a": "', '{"a": 1, ', "{'", "{", '{"a', '"', "\\"]:
        assert list(flat_objects(piece * 20_000)) == []
