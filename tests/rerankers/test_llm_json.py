from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.rerankers.llm_json import flat_objects

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
