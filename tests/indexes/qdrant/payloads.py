"""What a server does with conditions, for tests without one; and the fields of documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from hypothesis import Phase
from qdrant_client import models

from lagotto.documents import Document, JsonScalar, iso
from lagotto.indexes.qdrant.filters import Condition
from lagotto.stores.sql.read import attribute_rows

NOT_SHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""For Hypothesis tests that ask a server: making a failure smaller takes minutes there."""


def fields_of(document: Document) -> dict[str, tuple[JsonScalar, ...]]:
    """The fields of a document as a change log tells them."""
    values: dict[str, list[JsonScalar]] = defaultdict(list)
    for row in attribute_rows(1, document):
        if row["kind"] == "text":
            values[row["field"]].append(row["text_value"])
        elif row["kind"] == "boolean":
            values[row["field"]].append(bool(row["number_value"]))
        elif row["kind"] == "number":
            values[row["field"]].append(row["number_value"])
    if document.title is not None:
        values["title"] = [document.title]
    if document.created_at is not None:
        values["created_at"] = [iso(document.created_at)]
    if document.pages:
        values["page"] = [page.number for page in document.pages]
    return {name: tuple(some) for name, some in values.items()}


def meets(condition: Condition | None, payload: Mapping[str, Any], *, key: int = 1) -> bool:
    """Whether a point meets a condition."""
    match condition:
        case None:
            return True
        case models.HasIdCondition(has_id=ids):
            return key in ids
        case models.FieldCondition(key=path, match=models.MatchAny(any=values)):
            return bool(set(_values(path, payload)) & set(values))
        case models.FieldCondition(key=path, range=models.Range(gte=least, lte=most)):
            return any(
                (least is None or value >= least) and (most is None or value <= most)
                for value in _values(path, payload)
            )
        case models.Filter(must=must, should=should, must_not=must_not):
            return (
                all(meets(part, payload, key=key) for part in _parts(must))
                and (not should or any(meets(part, payload, key=key) for part in _parts(should)))
                and not any(meets(part, payload, key=key) for part in _parts(must_not))
            )
    raise TypeError(f"not a condition that is used: {condition!r}")


def _parts(parts: Any) -> list[Condition]:
    if parts is None:
        return []
    return parts if isinstance(parts, list) else [parts]


def _values(path: str, payload: Mapping[str, Any]) -> list[Any]:
    value: Any = payload
    for name in path.split("."):
        value = value.get(name, []) if isinstance(value, Mapping) else []
    return value if isinstance(value, list) else [value]
