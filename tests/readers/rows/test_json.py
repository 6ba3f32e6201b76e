from __future__ import annotations

import json

import pytest

from lagotto.documents import Document
from lagotto.readers import read_bytes

RECORDS = [{"id": "a", "text": "One record.", "year": 2024}, {"id": "b", "text": "Another."}]


def documents(value: object) -> list[Document]:
    return list(read_bytes(json.dumps(value).encode(), name="export.json"))


@pytest.mark.parametrize("export", [RECORDS, {"version": 1, "messages": RECORDS}])
def test_records_are_documents_with_fields(export: object) -> None:
    first, second = documents(export)
    assert (first.text, first.kind, first.source_ref) == ("One record.", "row", "a")
    assert first.metadata == {"row": 1, "year": 2024}
    assert second.text == "Another."


@pytest.mark.parametrize(
    "value", [{"a": 1, "b": [1, 2]}, [1, 2, 3], [], RECORDS[:1], {"a": RECORDS, "b": RECORDS}]
)
def test_other_json_is_code(value: object) -> None:
    (document,) = documents(value)
    assert document.kind == "code"
