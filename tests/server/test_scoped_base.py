"""The fields of documents with their values, as the server answers them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.filters import matches, parse_filter
from lagotto.server import scoped_base
from lagotto.server.scoped_base import MOST_FIELDS, MOST_VALUES, FieldCounts
from tests.server.running import Running, serving

leaves = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "b.c", "kind"]))
values = st.one_of(leaves, st.lists(leaves, max_size=3))
names = st.sampled_from(["kind", "year", "a.b", "$x", "metadata"])
metadata = st.dictionaries(names, st.one_of(values, st.dictionaries(names, values, max_size=2)))


@given(st.lists(metadata, max_size=4))
def test_a_filter_by_a_value_finds_as_many_documents_as_it_says(given: list[object]) -> None:
    documents = [Document(text="x", metadata=fields) for fields in given]
    counts = FieldCounts()
    for document in documents:
        counts.add(document)
    for field in counts.answer(complete=True)["fields"]:
        for value in field["values"]:
            wanted = parse_filter({field["name"]: [value["value"]]})
            assert sum(matches(wanted, item) for item in documents) == value["documents"]


def test_long_lists_are_cut_and_counted() -> None:
    counts = FieldCounts()
    for number in range(MOST_VALUES + 5):
        counts.add(Document(text="x", metadata={"number": number}))
    (field,) = [
        item for item in counts.answer(complete=False)["fields"] if item["name"] == "number"
    ]
    assert (len(field["values"]), field["values_total"]) == (MOST_VALUES, MOST_VALUES + 5)


def test_fields_are_cut_and_counted() -> None:
    counts = FieldCounts()
    counts.add(Document(text="x", metadata={f"field{number}": 1 for number in range(200)}))
    found = counts.answer(complete=True)
    assert len(found["fields"]) == MOST_FIELDS
    assert found["fields_total"] == 200 + len({"collection", "kind"})


def test_long_values_are_left_out() -> None:
    counts = FieldCounts()
    for size in (200, 201):
        counts.add(Document(text="x", metadata={"note": "x" * size}))
    (field,) = [item for item in counts.answer(complete=True)["fields"] if item["name"] == "note"]
    assert (field["documents"], field["values_total"]) == (1, 1)
    assert [len(item["value"]) for item in field["values"]] == [200]


def test_the_server_says_that_it_has_not_counted_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        for most, complete in ((3, False), (4, True)):
            monkeypatch.setattr(scoped_base, "COUNTED", most)
            found = server.http.get("/v1/fields").json()
            assert (found["counted"], found["complete"]) == (most, complete)


def test_the_server_answers_with_what_a_key_sees() -> None:
    with serving() as server:
        found = fields(server)
        assert found["topic"] == {"dogs": 1, "trees": 1}
        assert found["collection"] == {"default": 3, "b": 1}
        assert "topic" not in fields(server, collection="b")
        key = server.key(filters=parse_filter({"topic": "dogs"}))
        assert fields(server, key=key)["topic"] == {"dogs": 1}


def fields(server: Running, *, key: str = "", **params: str) -> dict[str, dict[str, int]]:
    found = server.get("/v1/fields", key=key, **params).json()
    assert found["complete"]
    return {
        field["name"]: {item["value"]: item["documents"] for item in field["values"]}
        for field in found["fields"]
    }
