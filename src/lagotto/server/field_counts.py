"""The fields that documents have, and how often each value occurs: what a filter could ask for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lagotto.documents import Document
from lagotto.filters.fields import field_name

COUNTED = 10_000
"""Documents that are read for it at most."""

MOST_VALUES = 50
"""Values shown of a field, the most frequent ones."""

MOST_FIELDS = 100
"""Fields shown, those of the most documents."""

LONGEST_VALUE = 200
"""Characters; longer values are left out, for nobody picks one from a list."""

OWN = ("collection", "kind", "language", "source")
"""Fields of the document itself that people filter by."""

Value = str | int | float | bool


class FieldCounts:
    """Counts the values of documents, one document after another."""

    def __init__(self) -> None:
        self.documents = 0
        self._values: dict[str, Counter[tuple[str, Value]]] = defaultdict(Counter)
        self._having: Counter[str] = Counter()

    def add(self, document: Document) -> None:
        """Count the values of one document, each value of a list once."""
        self.documents += 1
        found = {(name, _kind(value), value) for name, value in _leaves(document)}
        for name, kind, value in found:
            self._values[name][kind, value] += 1
        self._having.update({name for name, _, _ in found})

    def answer(self, *, complete: bool) -> dict[str, Any]:
        """The fields, those of the most documents first, with their most frequent values."""
        ordered = sorted(self._having, key=lambda name: (-self._having[name], name))
        return {
            "fields": [self._field(name) for name in ordered[:MOST_FIELDS]],
            "fields_total": len(ordered),
            "counted": self.documents,
            "complete": complete,
        }

    def _field(self, name: str) -> dict[str, Any]:
        values = self._values[name]
        best = sorted(values.items(), key=lambda item: (-item[1], item[0][0], item[0][1]))
        return {
            "name": name,
            "documents": self._having[name],
            "values": [
                {"value": value, "documents": count} for (_, value), count in best[:MOST_VALUES]
            ],
            "values_total": len(values),
        }


def _kind(value: Value) -> str:
    """Tells `True` from 1, which are equal in Python and not in a filter."""
    return "text" if isinstance(value, str) else "bool" if isinstance(value, bool) else "number"


def _leaves(document: Document) -> Iterator[tuple[str, Value]]:
    for name in OWN:
        if value := getattr(document, name):
            yield name, value
    yield from _inside(document.metadata, ())


def _inside(found: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Value]]:
    for key, value in found.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _inside(value, here)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | int | float) and len(str(item)) <= LONGEST_VALUE:
                yield field_name(here), item
