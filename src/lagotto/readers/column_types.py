"""The types of the columns of a table: which values are numbers, and which only look like it.

Numbers are what JSON writes as numbers. `007` and `+49 30` are texts: a code, and a telephone
number. So are `1,000` and `1,5`, which mean different numbers in different countries. `n/a` among
numbers is a missing value, as a blank is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lagotto.errors import CorruptSourceError
from lagotto.readers.base import ColumnType

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
MISSING = frozenset({"", "-", "--", "n/a", "#n/a", "na", "nan", "null", "none"})
"""How tables write that there is no value, in lower case."""
BOOLEANS = {"true": True, "false": False}
DETECTED: tuple[ColumnType, ...] = ("boolean", "integer", "number")


def typed(value: str, kind: ColumnType) -> str | int | float | bool | None:
    """A value as its type; None for a missing one that is not text, ValueError for another type."""
    if kind == "text":
        return value
    written = value.strip()
    if written.lower() in MISSING:
        return None
    if kind == "boolean" and written.lower() in BOOLEANS:
        return BOOLEANS[written.lower()]
    if kind == "integer" and INTEGER.fullmatch(written):
        return int(written)
    if kind == "number" and NUMBER.fullmatch(written):
        return int(written) if INTEGER.fullmatch(written) else float(written)
    raise ValueError(f"{written[:60]!r} is not {'an' if kind == 'integer' else 'a'} {kind}")


def typed_values(
    values: Mapping[str, object], types: Mapping[str, ColumnType], *, label: str
) -> dict[str, object]:
    """The values of a row with the types of their columns; only texts are changed."""
    found = dict(values)
    for name, kind in types.items():
        held = found.get(name)
        if isinstance(held, str):
            try:
                found[name] = typed(held, kind)
            except ValueError as exc:
                raise CorruptSourceError(label, f"{name}: {exc}") from exc
    return {name: value for name, value in found.items() if value is not None or name not in types}


def _has_type(value: str, kind: ColumnType) -> bool:
    try:
        typed(value, kind)
    except ValueError:
        return False
    return True


def detect_types(
    rows: Iterable[Sequence[str]], names: Sequence[str], *, columns: Iterable[str]
) -> dict[str, ColumnType]:
    """The narrowest types that all values of `columns` have; a column of texts has none.

    `columns` are some of `names`, the columns of the rows. Missing values have any type.
    """
    places = {name: index for index, name in enumerate(names)}
    possible = {name: list(DETECTED) for name in columns}
    filled: set[str] = set()
    for row in rows:
        if not possible:
            break
        for name, kinds in list(possible.items()):
            value = row[places[name]].strip() if places[name] < len(row) else ""
            if value.lower() in MISSING:
                continue
            filled.add(name)
            possible[name] = [kind for kind in kinds if _has_type(value, kind)]
            if not possible[name]:
                del possible[name]
    return {name: kinds[0] for name, kinds in possible.items() if name in filled}
