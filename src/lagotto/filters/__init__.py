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
"""

# ruff: noqa: I001  `X as X` says to type checkers that X is exported; one import per module

from lagotto._internal.registry import exports
from lagotto.filters.algebra import (
    MAX_CONDITIONS as MAX_CONDITIONS,
    MAX_DEPTH as MAX_DEPTH,
    RESERVED as RESERVED,
    And as And,
    Condition as Condition,
    Contains as Contains,
    Eq as Eq,
    Exists as Exists,
    FieldRef as FieldRef,
    Filter as Filter,
    Gt as Gt,
    Gte as Gte,
    In as In,
    Lt as Lt,
    Lte as Lte,
    Ne as Ne,
    Not as Not,
    NotIn as NotIn,
    Or as Or,
    conditions as conditions,
    field_ref as field_ref,
    fields as fields,
    merged as merged,
    parse_filter as parse_filter,
)
from lagotto.filters.evaluate import matches as matches

__all__, __getattr__, __dir__ = exports(__name__)
