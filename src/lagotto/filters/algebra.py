"""The nodes of a filter: conditions on one field, and And, Or and Not around them.

Nodes are immutable and hashable, and their repr is the call that creates them. Arguments are
checked and converted on creation: `field` is a FieldRef, `value` and `values` are JSON scalars.
Compilers `match` on nodes: `case Gte(field, value)`, `case And(filters)`, `case Not(inner)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lagotto.documents import JsonScalar, digest
from lagotto.errors import FilterError
from lagotto.filters.fields import FieldRef, field_ref
from lagotto.filters.operands import (
    Operand,
    ScalarKind,
    contained_operand,
    equality_operand,
    kind_of,
    ordering_operand,
    shown,
)

MAX_DEPTH = 64
"""The maximum nesting of And, Or and Not, which every evaluator and database supports."""


class Filter(ABC):
    """A condition that a document or chunk meets or not; combine with `&`, `|`, `~`."""

    __slots__ = ()
    operator: ClassVar[str]
    """The name in the JSON form."""

    @abstractmethod
    def to_json(self) -> dict[str, object]:
        """The JSON form, from which `parse_filter` creates an equal filter."""

    @abstractmethod
    def _arguments(self) -> tuple[object, ...]:
        """The arguments of the constructor."""

    def __and__(self, other: Filter) -> And:
        return And(*_parts(And, self), *_parts(And, other))

    def __or__(self, other: Filter) -> Or:
        return Or(*_parts(Or, self), *_parts(Or, other))

    def __invert__(self) -> Not:
        return Not(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"

    @property
    def cache_key(self) -> str:
        """A string that only equal filters share, short for any number of values."""
        return repr(self)

    # By that key, because True == 1 in Python, but not in a filter.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.cache_key == other.cache_key

    def __hash__(self) -> int:
        return hash(self.cache_key)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Condition(Filter):
    """A filter on one field."""

    field: FieldRef

    def __init__(self, field: str) -> None:
        object.__setattr__(self, "field", field_ref(field))


class Exists(Condition):
    """The field has a value that is not null; an empty text, list or dict is a value."""

    __slots__ = ()
    operator = "$exists"

    def to_json(self) -> dict[str, object]:
        return {self.field.name: {self.operator: True}}

    def _arguments(self) -> tuple[object, ...]:
        return (self.field.name,)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Comparison(Condition):
    """A field compared with one value of the same kind: text, number, or boolean."""

    value: JsonScalar
    _operand = staticmethod(equality_operand)

    def __init__(self, field: str, value: Operand) -> None:
        Condition.__init__(self, field)
        object.__setattr__(self, "value", self._operand(self.field, value))

    def to_json(self) -> dict[str, object]:
        return {self.field.name: {self.operator: self.value}}

    def _arguments(self) -> tuple[object, ...]:
        return (self.field.name, self.value)


class Eq(Comparison):
    """The field, or an element of it, equals the value; with None, the field is missing."""

    __slots__ = ()
    operator = "$eq"


class Ne(Comparison):
    """The complement of Eq: also matches a missing field."""

    __slots__ = ()
    operator = "$ne"


class Ordering(Comparison):
    """An order comparison: numbers by size, text by code point, dates and times as ISO text."""

    __slots__ = ()
    _operand = staticmethod(ordering_operand)


class Gt(Ordering):
    """The field, or an element of it, is greater."""

    __slots__ = ()
    operator = "$gt"


class Gte(Ordering):
    """The field, or an element of it, is greater or equal."""

    __slots__ = ()
    operator = "$gte"


class Lt(Ordering):
    """The field, or an element of it, is less."""

    __slots__ = ()
    operator = "$lt"


class Lte(Ordering):
    """The field, or an element of it, is less or equal."""

    __slots__ = ()
    operator = "$lte"


class Contains(Comparison):
    """A text has the value as a substring, or a list has it as an element."""

    __slots__ = ()
    operator = "$contains"
    _operand = staticmethod(contained_operand)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Membership(Condition):
    """A field compared with several values; `distinct` is for lookups by kind and value."""

    values: tuple[JsonScalar, ...]
    distinct: frozenset[tuple[ScalarKind | None, JsonScalar]] = field(init=False)
    _key: str = field(init=False)

    def __init__(self, field: str, values: Iterable[Operand]) -> None:
        Condition.__init__(self, field)
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise FilterError(
                f"filter on {self.field.name!r}: {type(self).__name__} takes a list of values, "
                f"not {shown(values)}; write [{shown(values)}] for a single one"
            )
        # Sets are unordered, and equal filters must have the same repr.
        ordered = sorted(values, key=repr) if isinstance(values, set | frozenset) else values
        plain = tuple(equality_operand(self.field, value) for value in ordered)
        distinct = frozenset((kind_of(value), value) for value in plain)
        name = type(self).__name__
        key = f"{name}({self.field.name!r}, {digest(len(plain), repr(plain))})"
        object.__setattr__(self, "values", plain)
        object.__setattr__(self, "distinct", distinct)
        object.__setattr__(self, "_key", key)

    @property
    def cache_key(self) -> str:
        return self._key

    def to_json(self) -> dict[str, object]:
        return {self.field.name: {self.operator: list(self.values)}}

    def _arguments(self) -> tuple[object, ...]:
        return (self.field.name, list(self.values))


class In(Membership):
    """Eq holds for one of the values; `In(field, [])` matches nothing."""

    __slots__ = ()
    operator = "$in"


class NotIn(Membership):
    """The complement of In."""

    __slots__ = ()
    operator = "$nin"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Junction(Filter):
    """A combination of filters."""

    filters: tuple[Filter, ...]

    def __init__(self, *filters: Filter) -> None:
        object.__setattr__(self, "filters", _nestable(self, filters))

    def to_json(self) -> dict[str, object]:
        return {self.operator: [part.to_json() for part in self.filters]}

    def _arguments(self) -> tuple[object, ...]:
        return self.filters

    @property
    def cache_key(self) -> str:
        return f"{type(self).__name__}({', '.join(part.cache_key for part in self.filters)})"


class And(Junction):
    """All of the filters hold; `And()` matches everything."""

    __slots__ = ()
    operator = "$and"

    def to_json(self) -> dict[str, object]:
        return Junction.to_json(self) if self.filters else {}


class Or(Junction):
    """At least one of the filters holds; `Or()` matches nothing."""

    __slots__ = ()
    operator = "$or"


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Not(Filter):
    """The exact complement of a filter."""

    inner: Filter
    operator = "$not"

    def __init__(self, inner: Filter) -> None:
        object.__setattr__(self, "inner", _nestable(self, (inner,))[0])

    def to_json(self) -> dict[str, object]:
        return {self.operator: self.inner.to_json()}

    def _arguments(self) -> tuple[object, ...]:
        return (self.inner,)

    @property
    def cache_key(self) -> str:
        return f"Not({self.inner.cache_key})"


def conditions(root: Filter) -> Iterator[Condition]:
    """The conditions of a filter, left to right."""
    if isinstance(root, Condition):
        yield root
    for part in _children(root):
        yield from conditions(part)


def fields(root: Filter) -> set[str]:
    """The canonical names of the fields that a filter uses."""
    return {condition.field.name for condition in conditions(root)}


def too_deep() -> FilterError:
    """The error for a filter nested deeper than MAX_DEPTH."""
    return FilterError(
        f"the filter is nested more than {MAX_DEPTH} deep; flatten it: And and Or take any number "
        "of filters"
    )


def _children(root: Filter) -> tuple[Filter, ...]:
    if isinstance(root, Junction):
        return root.filters
    return (root.inner,) if isinstance(root, Not) else ()


def _depth(root: Filter) -> int:
    if isinstance(root, Condition):
        return 0
    return 1 + max(map(_depth, _children(root)), default=-1)


def _parts(junction: type[And | Or], root: Filter) -> tuple[Filter, ...]:
    """`a & b & c` is one And of three, however many there are."""
    return root.filters if isinstance(root, junction) else (root,)


def _nestable(parent: Filter, filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    for part in filters:
        if not isinstance(part, Filter):
            raise FilterError(
                f"{type(parent).__name__} takes filters, not {shown(part)}; "
                "parse_filter makes one of a dict"
            )
        if _depth(part) >= MAX_DEPTH:
            raise too_deep()
    return filters
