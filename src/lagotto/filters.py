"""Filters: one algebra with one meaning, whichever store answers.

1. A filter matches or it does not. `Not` is the exact complement, `Ne` of `Eq`, `NotIn` of `In`.
2. A missing field, a null and a path that leads nowhere are the same: missing. No comparison
   holds for a missing field, except `Eq` with None, which means missing. None among `In`'s
   values means "or missing". `Exists` is the opposite of missing.
3. A list meets a comparison if one of its elements does; elements that are null, lists or dicts
   never do. A dict only exists. `page` is a list: every page that the chunk or document touches.
4. Numbers compare with numbers (exactly, int or float), text with text, booleans with booleans
   and only for equality. A value of another type does not match.
5. Text compares by code point; case matters.
6. Dates are ISO text and compare as text. For `created_at` and `updated_at` both sides are times
   in UTC, and a bare date is its midnight.
7. `Contains` finds a substring in a text, an element in a list.
8. `In` without values matches nothing, `NotIn` everything; so do `Or()` and `And()`.
9. A comparison that can't make sense is a FilterError when the filter is made.

A reserved name is a field of the document or chunk. Any other name is a path of metadata keys,
joined by dots; a dot or backslash inside a key is escaped by a backslash. The prefix `metadata.` is
optional; with it a metadata key may have the name of a reserved field. `doc_id` is another name of
`document_id`.
"""

from __future__ import annotations

import json
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from math import isfinite
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

from lagotto._internal.registry import did_you_mean
from lagotto.documents import Chunk, Document, JsonScalar, digest, iso, storable
from lagotto.errors import FilterError

__all__ = [
    "MAX_CONDITIONS",
    "MAX_DEPTH",
    "RESERVED",
    "And",
    "Condition",
    "Contains",
    "Eq",
    "Exists",
    "FieldRef",
    "Filter",
    "Gt",
    "Gte",
    "In",
    "Lt",
    "Lte",
    "Ne",
    "Not",
    "NotIn",
    "Or",
    "conditions",
    "field_ref",
    "fields",
    "matches",
    "merged",
    "parse_filter",
]

FieldType = Literal["text", "number", "time", "any"]

_TEXTS = "document_id collection kind source source_ref title summary language content_hash"
_OTHERS: dict[str, FieldType] = {"page": "number", "created_at": "time", "updated_at": "time"}
RESERVED: Mapping[str, FieldType] = MappingProxyType(
    {**dict.fromkeys(_TEXTS.split(), "text"), **_OTHERS}
)
"""The document's own fields and their types; `page` has several numbers."""

ALIASES: Mapping[str, str] = MappingProxyType({"doc_id": "document_id"})
"""Other names of reserved fields."""

_PREFIX = "metadata"
_ESCAPED = re.compile(r"\\(.)")
_SPECIAL = re.compile(r"([.\\])")
_SEGMENTS = re.compile(r"\A(?:[^.\\]|\\[.\\])++(?:\.(?:[^.\\]|\\[.\\])++)*+")
_SEGMENT = re.compile(r"(?:[^.\\]|\\[.\\])+")


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field: its canonical name, its metadata path (None if reserved), and its type."""

    name: str
    path: tuple[str, ...] | None
    type: FieldType


def field_ref(name: str) -> FieldRef:
    """Resolve a field name; two spellings of one field give equal references."""
    if not isinstance(name, str):
        raise FilterError(f"a field name must be text, not {name!r}")
    name = storable(str.__str__(name))  # also the value of an enum member
    name = ALIASES.get(name, name)
    if name in RESERVED:
        return FieldRef(name, None, RESERVED[name])
    if not _SEGMENTS.fullmatch(name):
        raise FilterError(
            f"{name!r} is not a field name; write keys joined by single dots, such as "
            r"author.name, with \. for a dot and \\ for a backslash inside a key"
        )
    path = tuple(_ESCAPED.sub(r"\1", segment) for segment in _SEGMENT.findall(name))
    if path[0] == _PREFIX and len(path) > 1:
        path = path[1:]
    return FieldRef(field_name(path), path, "any")


def field_name(path: tuple[str, ...]) -> str:
    """The canonical name of a metadata path."""
    name = ".".join(_SPECIAL.sub(r"\\\1", key) for key in path)
    nested_in_prefix = path[0] == _PREFIX and len(path) > 1
    # A leading $ would be read as an operator in the JSON form.
    if name in RESERVED or name in ALIASES or nested_in_prefix or name.startswith("$"):
        return f"{_PREFIX}.{name}"
    return name


Operand = JsonScalar | date
"""Values that callers may pass; dates and datetimes become ISO text."""

ScalarKind = Literal["text", "number", "boolean"]

MAX_DEPTH = 64
"""The maximum nesting of And, Or and Not, which every evaluator and database supports."""

MAX_CONDITIONS = 2_000
"""The conditions of a filter once it is `merged`: .6 seconds of CPU time in 2,000 documents."""


def shown(value: object) -> str:
    """Shorten `value` for a message."""
    try:
        return shortened(value)
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a very long {type(value).__name__}"


def kind_of(value: object) -> ScalarKind | None:
    """The kind of a value; only values of the same kind are comparable, None with nothing."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


def _typed(field: FieldRef, value: object) -> JsonScalar:
    """Convert a value; None means a missing field."""
    if value is None:
        return None
    plain = _plain(field, value)
    if field.type == "time":
        return _moment(field, value)
    if field.type != "any" and kind_of(plain) != field.type:
        raise _error(
            field,
            f"it is a {field.type} field, so it can't be compared with {shown(value)}; a metadata "
            f"key of that name is 'metadata.{field.name}'",
        )
    return plain


def _plain(field: FieldRef, value: object) -> JsonScalar:
    match value:
        case bool():
            return value
        case str():
            return storable(str.__str__(value))  # also the value of an enum member
        case int() if -(2**63) <= value < 2**63:
            return int(value)
        case float() if isfinite(value):
            return float(value)
        case int() | float():
            reason = "numbers must be finite and integers fit in 64 bits"
        case date():
            return _iso(field, value)
        case list() | tuple() | set() | frozenset() | Mapping():
            reason = "compare with one value; use In for several, Contains for a list's element"
        case _:
            reason = f"a {type(value).__name__} is neither text, number, boolean nor date"
    raise _error(field, f"can't compare with {shown(value)}: {reason}")


def _moment(field: FieldRef, value: object) -> str:
    """Convert to a time as stored; a date means midnight, a time without a zone is UTC."""
    if isinstance(value, str):
        with suppress(ValueError):
            return _iso(field, datetime.fromisoformat(value))
    elif isinstance(value, datetime):
        return _iso(field, value)
    elif isinstance(value, date):
        return _iso(field, datetime.combine(value, time()))
    raise _error(
        field,
        f"{shown(value)} is not a time; write a date, a datetime or text such as '2024-01-31' or "
        "'2024-01-31T12:00:00Z'",
    )


def _iso(field: FieldRef, moment: date) -> str:
    try:
        return iso(moment)
    except ValueError as exc:
        raise _error(field, str(exc)) from exc


def _error(field: FieldRef, problem: str) -> FilterError:
    return FilterError(f"filter on {field.name!r}: {problem}")


class Filter(ABC):
    """A condition that a document or chunk meets or not; combine with `&`, `|`, `~`."""

    operator: ClassVar[str]
    """The name in the JSON form."""

    def __init_subclass__(cls, operator: str = "") -> None:
        if operator:
            cls.operator = operator

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """The JSON form, from which `parse_filter` creates an equal filter."""

    @property
    def parts(self) -> tuple[Filter, ...]:
        """The filters that this one combines."""
        return ()

    def _arguments(self) -> tuple[object, ...]:
        """The arguments of the constructor."""
        return self.parts

    def __and__(self, other: Filter) -> And:
        return And(*_flat(And, self), *_flat(And, other))

    def __or__(self, other: Filter) -> Or:
        return Or(*_flat(Or, self), *_flat(Or, other))

    def __invert__(self) -> Not:
        return Not(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"

    @property
    def cache_key(self) -> str:
        """A string that only equal filters share, short for any number of values."""
        return f"{type(self).__name__}({', '.join(part.cache_key for part in self.parts)})"

    # By that key, because True == 1 in Python, but not in a filter.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.cache_key == other.cache_key

    def __hash__(self) -> int:
        return hash(self.cache_key)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Condition(Filter):
    """A filter on one field."""

    field: FieldRef

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "field", field_ref(field))

    @property
    def operands(self) -> tuple[JsonScalar, ...]:
        """The values that the field is compared with."""
        return ()

    @property
    def cache_key(self) -> str:
        return repr(self)

    def to_json(self) -> dict[str, object]:
        name, *operands = self._arguments()
        return {str(name): {self.operator: operands[0] if operands else True}}

    def _arguments(self) -> tuple[object, ...]:
        return (self.field.name, *self.operands)


class Exists(Condition, operator="$exists"):
    """The field has a value that is not null; an empty text, list or dict is a value."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Comparison(Condition):
    """A field compared with one value of the same kind: text, number, or boolean."""

    value: JsonScalar

    def __init__(self, field: str, value: Operand) -> None:
        super().__init__(field)
        object.__setattr__(self, "value", self._operand(value))

    def _operand(self, value: object) -> JsonScalar:
        return _typed(self.field, value)

    @property
    def operands(self) -> tuple[JsonScalar, ...]:
        return (self.value,)


class Eq(Comparison, operator="$eq"):
    """The field, or an element of it, equals the value; with None, the field is missing."""


class Ne(Comparison, operator="$ne"):
    """The complement of Eq: also matches a missing field."""


class Ordering(Comparison):
    """An order comparison: numbers by size, text by code point, dates and times as ISO text."""

    def _operand(self, value: object) -> JsonScalar:
        if value is None or isinstance(value, bool):
            remedy = "compare with a number, text or date, or use Eq, Ne or Exists"
            raise _error(self.field, f"{value} has no order; {remedy}")
        return _typed(self.field, value)


class Gt(Ordering, operator="$gt"):
    """The field, or an element of it, is greater."""


class Gte(Ordering, operator="$gte"):
    """The field, or an element of it, is greater or equal."""


class Lt(Ordering, operator="$lt"):
    """The field, or an element of it, is less."""


class Lte(Ordering, operator="$lte"):
    """The field, or an element of it, is less or equal."""


class Contains(Comparison, operator="$contains"):
    """A text has the value as a substring, or a list has it as an element."""

    def _operand(self, value: object) -> JsonScalar:
        if self.field.type == "time":
            raise _error(self.field, "a time contains nothing; use Gte and Lt for a range")
        if value is None:
            raise _error(self.field, "nothing contains None; use Exists, or Eq with None")
        return _typed(self.field, value)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Membership(Condition):
    """A field compared with several values; `distinct` is for lookups by kind and value."""

    values: tuple[JsonScalar, ...]

    def __init__(self, field: str, values: Iterable[Operand]) -> None:
        super().__init__(field)
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise _error(
                self.field,
                f"{type(self).__name__} takes a list of values, not {shown(values)}; write "
                f"[{shown(values)}] for a single one",
            )
        # Sets are unordered, and equal filters must have the same repr.
        ordered = sorted(values, key=repr) if isinstance(values, set | frozenset) else values
        object.__setattr__(self, "values", tuple(_typed(self.field, value) for value in ordered))

    @property
    def operands(self) -> tuple[JsonScalar, ...]:
        return self.values

    @cached_property
    def distinct(self) -> frozenset[tuple[ScalarKind | None, JsonScalar]]:
        return frozenset((kind_of(value), value) for value in self.values)

    @cached_property
    def cache_key(self) -> str:
        key = digest(len(self.values), repr(self.values))
        return f"{type(self).__name__}({self.field.name!r}, {key})"

    def _arguments(self) -> tuple[object, ...]:
        return (self.field.name, list(self.values))


class In(Membership, operator="$in"):
    """Eq holds for one of the values; `In(field, [])` matches nothing."""


class NotIn(Membership, operator="$nin"):
    """The complement of In."""


def _checked(kind: type[Filter], parts: tuple[Filter, ...]) -> tuple[Filter, ...]:
    for part in parts:
        if not isinstance(part, Filter):
            raise FilterError(
                f"{kind.__name__} takes filters, not {shown(part)}; "
                "parse_filter makes one of a dict"
            )
        if depth(part) >= MAX_DEPTH:
            raise too_deep()
    return parts


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Junction(Filter):
    """A combination of filters."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _checked(type(self), filters))

    @property
    def parts(self) -> tuple[Filter, ...]:
        return self.filters

    def to_json(self) -> dict[str, object]:
        return {self.operator: [part.to_json() for part in self.filters]}


class And(Junction, operator="$and"):
    """All of the filters hold; `And()` matches everything."""

    def to_json(self) -> dict[str, object]:
        return super().to_json() if self.filters else {}


class Or(Junction, operator="$or"):
    """At least one of the filters holds; `Or()` matches nothing."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Not(Filter, operator="$not"):
    """The exact complement of a filter."""

    inner: Filter

    def __init__(self, inner: Filter) -> None:
        object.__setattr__(self, "inner", *_checked(Not, (inner,)))

    @property
    def parts(self) -> tuple[Filter, ...]:
        return (self.inner,)

    def to_json(self) -> dict[str, object]:
        return {self.operator: self.inner.to_json()}


def conditions(root: Filter) -> Iterator[Condition]:
    """The conditions of a filter, left to right."""
    if isinstance(root, Condition):
        yield root
    for part in root.parts:
        yield from conditions(part)


def fields(root: Filter) -> set[str]:
    """The canonical names of the fields that a filter uses."""
    return {condition.field.name for condition in conditions(root)}


def depth(root: Filter) -> int:
    """How many junctions and negations a condition is in, at most."""
    if isinstance(root, Condition):
        return 0
    return 1 + max(map(depth, root.parts), default=-1)


def too_deep() -> FilterError:
    return FilterError(
        f"the filter is nested more than {MAX_DEPTH} deep; flatten it: And and Or take any number "
        "of filters"
    )


def _flat(junction: type[And | Or], root: Filter) -> tuple[Filter, ...]:
    """`a & b & c` is one And of three, however many there are."""
    return root.filters if isinstance(root, junction) else (root,)


def merged(root: Filter) -> Filter:
    """An equivalent filter for stores, with fewer conditions; FilterError if they are too many.

    Alternatives for one field become one In, exclusions one NotIn, and a junction in one of the
    same kind becomes a part of it.
    """
    short = _merged(root)
    count = sum(1 for _ in conditions(short))
    if count > MAX_CONDITIONS:
        raise FilterError(
            f"the filter has {count} conditions, more than the {MAX_CONDITIONS} that a search "
            "takes; give many values of one field by In or NotIn, or search in several steps"
        )
    return short


def _merged(root: Filter) -> Filter:
    if isinstance(root, Not):
        return Not(_merged(root.inner))
    if not isinstance(root, And | Or):
        return root
    kind = type(root)
    single, several = (Eq, In) if kind is Or else (Ne, NotIn)
    parts: list[Filter] = []
    values: dict[str, list[JsonScalar]] = {}
    for part in chain.from_iterable(_flat(kind, _merged(each)) for each in root.filters):
        if isinstance(part, single | several):
            values.setdefault(part.field.name, []).extend(part.operands)
        else:
            parts.append(part)
    for name, some in values.items():
        parts.append(single(name, some[0]) if len(some) == 1 else several(name, some))
    return parts[0] if len(parts) == 1 else kind(*parts)


_EXAMPLE = 'write it like {"type": "documentation", "year": {"$gte": 2020}}'

_COMPARISONS: dict[str, Callable[[str, Any], Condition]] = {
    node.operator: node for node in (Eq, Ne, Gt, Gte, Lt, Lte, Contains, In, NotIn)
}
_JUNCTIONS: dict[str, type[Junction]] = {node.operator: node for node in (And, Or)}
_ON_FIELDS = (*_COMPARISONS, Exists.operator)
_ON_FILTERS = (*_JUNCTIONS, Not.operator)

T = TypeVar("T")


def parse_filter(value: Filter | Mapping[str, object] | str | None) -> Filter:
    """Create a filter from its JSON form, a dict or a string; None matches everything.

    A Filter is returned unchanged. FilterError explains what is invalid, and what is valid.
    """
    if isinstance(value, Filter):
        return value
    if value is None:
        return And()
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError) as exc:
            raise FilterError(f"the filter {shown(value)} is not JSON: {exc}; {_EXAMPLE}") from exc
    return _object(parsed, level=0)


def _without_duplicates(pairs: list[tuple[str, T]]) -> dict[str, T]:
    # By default the last one would win, and a condition would be lost silently.
    unique: dict[str, T] = {}
    for key, value in pairs:
        if key in unique:
            raise ValueError(f"the key {key!r} appears twice, use $and")
        unique[key] = value
    return unique


def _object(value: object, *, level: int) -> Filter:
    if not isinstance(value, Mapping):
        raise FilterError(f"a filter is an object, not {shown(value)}; {_EXAMPLE}")
    if level > MAX_DEPTH:
        raise too_deep()
    parts = [_entry(key, item, level=level) for key, item in value.items()]
    return parts[0] if len(parts) == 1 else And(*parts)


def _entry(key: str, value: object, *, level: int) -> Filter:
    if not isinstance(key, str) or not key.startswith("$"):
        return _on_field(key, value)
    if key == Not.operator:
        return Not(_object(value, level=level + 1))
    if key not in _JUNCTIONS:  # a metadata key of such a name is written "metadata.$name"
        raise _unknown(key, known=_ON_FILTERS, elsewhere=_ON_FIELDS)
    if not isinstance(value, list | tuple):
        raise FilterError(f"{key} takes a list of filters, not {shown(value)}")
    return _JUNCTIONS[key](*(_object(item, level=level + 1) for item in value))


def _on_field(name: str, value: object) -> Filter:
    if isinstance(value, list | tuple):
        return In(name, value)
    if not isinstance(value, Mapping):
        return Eq(name, cast("Operand", value))
    if not value:
        raise FilterError(f"filter on {name!r}: {{}} compares with nothing; {_EXAMPLE}")
    parts = [_condition(name, key, operand) for key, operand in value.items()]
    return parts[0] if len(parts) == 1 else And(*parts)


def _condition(name: str, key: object, operand: object) -> Condition | Not:
    if not isinstance(key, str) or not key.startswith("$"):
        raise FilterError(
            f"filter on {name!r}: {key!r} is not an operator; for a key inside {name!r} use "
            f'"{name}.{key}", else one of {", ".join(_ON_FIELDS)}'
        )
    if key in _COMPARISONS:
        return _COMPARISONS[key](name, operand)
    if key != Exists.operator:
        raise _unknown(key, known=_ON_FIELDS, elsewhere=_ON_FILTERS)
    if not isinstance(operand, bool):
        raise FilterError(f"filter on {name!r}: $exists takes true or false, not {shown(operand)}")
    return Exists(name) if operand else Not(Exists(name))


def _unknown(key: str, *, known: tuple[str, ...], elsewhere: tuple[str, ...]) -> FilterError:
    if key in elsewhere:
        form = f'{{"{key}": ...}}'
        usage = f'{{"field": {form}}}' if key in _ON_FIELDS else f"{form} around whole filters"
        return FilterError(f"{key} can't be used here; write {usage}")
    guess = did_you_mean(key, known)
    return FilterError(f"unknown operator {key}; available here: {', '.join(known)}{guess}")


ORDERS: dict[type[Condition], Callable[[Any, Any], bool]] = {
    Gt: operator.gt, Gte: operator.ge, Lt: operator.lt, Lte: operator.le,
}  # fmt: skip


def matches(root: Filter, document: Document, chunk: Chunk | None = None) -> bool:
    """Whether `document`, or a chunk of it, meets the filter; they differ only in `page`."""
    match root:
        case And(filters):
            return all(matches(part, document, chunk) for part in filters)
        case Or(filters):
            return any(matches(part, document, chunk) for part in filters)
        case Not(inner):
            return not matches(inner, document, chunk)
        case Condition(field):
            return _holds(root, value_of(field, document, chunk))
    raise TypeError(f"not a filter: {root!r}")


def _holds(condition: Condition, value: object) -> bool:
    match condition:
        case Exists():
            return value is not None
        case Eq(_, wanted):
            return _equals(value, wanted)
        case Ne(_, wanted):
            return not _equals(value, wanted)
        case In():
            return _is_among(value, condition)
        case NotIn():
            return not _is_among(value, condition)
        case Contains(_, wanted):
            if isinstance(value, str):
                return isinstance(wanted, str) and wanted in value
            return isinstance(value, list) and _equals(value, wanted)
        case Ordering(_, wanted):
            return _compares(ORDERS[type(condition)], value, wanted)
    raise TypeError(f"not a condition: {condition!r}")


def _equals(value: object, wanted: JsonScalar) -> bool:
    if wanted is None:
        return value is None
    return _compares(operator.eq, value, wanted)


def _is_among(value: object, condition: Membership) -> bool:
    if isinstance(value, list):
        return any((kind_of(item), item) in condition.distinct for item in filter(kind_of, value))
    kind = kind_of(value)
    return (kind or value is None) and (kind, value) in condition.distinct


def _compares(comparison: Callable[[Any, Any], bool], value: object, wanted: JsonScalar) -> bool:
    items = value if isinstance(value, list) else [value]
    kind = kind_of(wanted)
    return any(kind_of(item) == kind and comparison(item, wanted) for item in items)


def value_of(field: FieldRef, document: Document, chunk: Chunk | None) -> object:
    """What a document, or a chunk of it, has in a field, as filters compare it."""
    if field.path is not None:
        inside: object = document.metadata
        for key in field.path:
            inside = inside.get(key) if isinstance(inside, dict) else None
        return inside
    if field.name == "page" and chunk is not None:
        return list(range(chunk.pages[0], chunk.pages[1] + 1)) if chunk.pages else None
    if field.name == "page":
        return [page.number for page in document.pages] or None
    if field.name == "document_id":
        return document.id
    value = getattr(document, field.name)
    return value if field.type != "time" or value is None else iso(value)


KINDS: dict[ScalarKind, str] = {"text": "text", "number": "numbers", "boolean": "booleans"}


def metadata_fields(where: Filter) -> set[str]:
    """The metadata fields that a filter uses, by their canonical names."""
    return {
        condition.field.name for condition in conditions(where) if condition.field.path is not None
    }


def unknown_field_notes(unknown: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """A note for each field that no document has, with the nearest of those that exist."""
    names = {*known, *RESERVED}
    return tuple(
        f"no document has the field {name!r}{did_you_mean(name, names)}" for name in sorted(unknown)
    )


def other_kind_notes(where: Filter, has_kind: Callable[[str, ScalarKind], bool]) -> tuple[str, ...]:
    """A note for each field with values, none of them of a kind that the filter compares it with.

    For filters that match nothing: one may compare with several kinds on purpose.
    """
    notes = []
    kinds: dict[str, set[ScalarKind]] = {name: set() for name in metadata_fields(where)}
    for condition in conditions(where):
        if condition.field.name in kinds:
            kinds[condition.field.name].update(filter(None, map(kind_of, condition.operands)))
    for name, compared in sorted(kinds.items()):
        if not compared or any(has_kind(name, kind) for kind in compared):
            continue
        if present := [kind for kind in get_args(ScalarKind) if has_kind(name, kind)]:
            notes.append(
                f"the field {name!r} holds {_listed(present)}, "
                f"but the filter compares it with {_listed(compared)}"
            )
    return tuple(notes)


class FilterHint(str):
    """A note that is not an error in a strict search: the filter may be right."""

    __slots__ = ()


ALIKE = 0.75
"""How much of a text must be the same for it to be taken for a slip; letters only: a year that no
document has is not misspelt."""


def misspelt_value_notes(
    where: Filter, values_of: Callable[[str], Collection[str]]
) -> tuple[FilterHint, ...]:
    """A hint for each text that no document has in a field where a similar one exists.

    For filters that match nothing.
    """
    notes = []
    for name, value in _required_texts(where):
        known = values_of(name) if any(map(str.isalpha, value)) else ()
        if value not in known and (near := get_close_matches(value, known, n=1, cutoff=ALIKE)):
            notes.append(FilterHint(f"no document has {name} {value!r}; did you mean {near[0]!r}?"))
    return tuple(notes)


def _required_texts(where: Filter) -> Iterator[tuple[str, str]]:
    """Fields and the texts that they are to equal; of a list, only if it has one."""
    match where:
        case And(filters) | Or(filters):
            for part in filters:
                yield from _required_texts(part)
        case Eq(field=field, value=str(value)) | In(field=field, values=[str(value)]):
            yield field.name, value


def _listed(kinds: Collection[ScalarKind]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in kinds)
