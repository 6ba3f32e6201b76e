"""Fields of a filter that no document has: most likely a typo, so a search says it."""

from __future__ import annotations

from collections.abc import Collection

from lagotto.filters.algebra import Filter, conditions
from lagotto.filters.fields import RESERVED
from lagotto.suggestions import did_you_mean


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
