"""Notes on the fields of a filter that no document has, or only with values of another kind.

Most likely that is a typo, or a number that was read as text, so a search says it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import get_args

from lagotto.filters.algebra import Comparison, Condition, Filter, Membership, conditions
from lagotto.filters.fields import RESERVED
from lagotto.filters.operands import ScalarKind, kind_of
from lagotto.suggestions import did_you_mean

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
    for name, compared in sorted(_compared_kinds(where).items()):
        if any(has_kind(name, kind) for kind in compared):
            continue
        if held := [kind for kind in get_args(ScalarKind) if has_kind(name, kind)]:
            notes.append(
                f"the field {name!r} holds {_listed(held)}, "
                f"but the filter compares it with {_listed(compared)}"
            )
    return tuple(notes)


def _compared_kinds(where: Filter) -> dict[str, set[ScalarKind]]:
    """The kinds of values that each metadata field is compared with."""
    found: dict[str, set[ScalarKind]] = {}
    for condition in conditions(where):
        kinds = {kind for kind in map(kind_of, _operands(condition)) if kind}
        if kinds and condition.field.path is not None:
            found.setdefault(condition.field.name, set()).update(kinds)
    return found


def _operands(condition: Condition) -> tuple[object, ...]:
    if isinstance(condition, Comparison):
        return (condition.value,)
    return condition.values if isinstance(condition, Membership) else ()


def _listed(kinds: Collection[ScalarKind]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in kinds)
