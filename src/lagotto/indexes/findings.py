"""Findings of a check of an index."""

from __future__ import annotations

from pathlib import Path

from lagotto.errors import StoreError
from lagotto.indexes.base import Finding
from lagotto.indexes.folder import size_of

MEGABYTE = 1_000_000

REBUILD = "run `lagotto rebuild`"

OTHER_HISTORY = "the %s index belongs to another history of the base; it is rebuilt"
"""Logged: another copy of the base wrote it, or a backup of the base was restored."""


def index_state(name: str, *, folder: Path, indexed_up_to: int, changes: int) -> Finding:
    """For an index that can be used."""
    if indexed_up_to < changes:
        return _behind(name, indexed_up_to, changes, advice="the next search catches up")
    size = size_of(folder) / MEGABYTE
    what = f"the {name} index is up to date ({size:.1f} MB, {changes} changes)"
    return Finding(level="ok", what=what)


def remote_index_state(name: str, *, where: str, indexed_up_to: int, changes: int) -> Finding:
    """For an index behind a network that can be used."""
    if indexed_up_to < changes:
        advice = "it catches up in the background; searches read what is newer from the database"
        return _behind(name, indexed_up_to, changes, advice=advice)
    what = f"the {name} index on {where} is up to date ({changes} changes)"
    return Finding(level="ok", what=what)


def _behind(name: str, indexed_up_to: int, changes: int, *, advice: str) -> Finding:
    behind = changes - indexed_up_to
    what = f"the {name} index is {behind} changes behind ({indexed_up_to} of {changes})"
    return Finding(level="note", what=what, advice=advice)


def other_history(name: str) -> Finding:
    """For an index of another copy of the base, or of one before a backup was restored."""
    return Finding(
        level="note",
        what=f"the {name} index belongs to another history of the base",
        advice="the next search rebuilds it, which takes a while",
    )


def missing_index(name: str) -> Finding:
    """For an index that is not there."""
    what = f"there is no {name} index"
    return Finding(level="note", what=what, advice="the next search builds it, which takes a while")


def damaged_index(name: str, problem: StoreError) -> Finding:
    """For an index that can't be used."""
    return Finding(
        level="problem",
        what=f"the {name} index is damaged: {problem}",
        advice="the next search rebuilds it; if it happens more than once, check the disk",
    )
