"""Children are found, parents are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lagotto.documents import Chunk
from lagotto.errors import StoreError
from lagotto.prefs import ParentsPrefs
from lagotto.retrieval.degradation import Degradation
from lagotto.retrieval.ranking import Ranked
from lagotto.stores.base import View


def any_children(ranked: Sequence[Ranked]) -> bool:
    """Whether there are parents to be had."""
    return any(item.passage.chunk.parent_id for item in ranked)


def parent_or_self(item: Ranked) -> str:
    """What `replace` would make of a hit: the id of its parent, or its own."""
    return item.passage.chunk.parent_id or item.passage.chunk.id


async def resolve_parents(
    view: View, ranked: Sequence[Ranked], prefs: ParentsPrefs, degradation: Degradation
) -> list[Ranked]:
    """The hits with their parents as `prefs` say; unchanged, and noted, if those can't be read."""
    children = [item.passage.chunk for item in ranked if item.passage.chunk.parent_id]
    if prefs.mode == "none" or not children:
        return list(ranked)
    try:
        parents = await view.parents(children)
    except StoreError as exc:
        degradation.note("parents", f"not read, children stand alone ({exc})", cause=exc)
        return list(ranked)
    if prefs.mode == "replace":
        return _replaced(ranked, parents)
    return [_accompanied(item, parents, prefs) for item in ranked]


def _replaced(ranked: Sequence[Ranked], parents: Mapping[str, Chunk]) -> list[Ranked]:
    """Children become their parents, with the child's score; of several the best one stays."""
    kept: dict[tuple[str, str], Ranked] = {}
    for item in ranked:
        child = item.passage.chunk
        parent = parents.get(child.parent_id or "")
        if parent is not None:
            passage = replace(item.passage, chunk=parent)
            item = replace(item, passage=passage, child_id=child.id, evidence=None)
        kept.setdefault((child.collection, item.passage.chunk.id), item)
    return list(kept.values())


def _accompanied(item: Ranked, parents: Mapping[str, Chunk], prefs: ParentsPrefs) -> Ranked:
    parent = parents.get(item.passage.chunk.parent_id or "")
    if parent is None:
        return item
    if prefs.mode == "attach":
        return replace(item, parent=parent)
    return replace(item, section=parent.text[: prefs.section_chars])
