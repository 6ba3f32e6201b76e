"""Children are found, parents are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lagotto.retrieval.ranking import Ranked
from lagotto.stores.base import View


def any_children(ranked: Sequence[Ranked]) -> bool:
    """Whether there are parents to be had."""
    return any(item.passage.chunk.parent_id for item in ranked)


async def replace_by_parents(view: View, ranked: Sequence[Ranked]) -> list[Ranked]:
    """Children become their parents, with the child's score; of several the best one stays."""
    children = [item.passage.chunk for item in ranked if item.passage.chunk.parent_id]
    parents = await view.parents(children)
    kept: dict[str, Ranked] = {}
    for item in ranked:
        chunk = parents.get(item.passage.chunk.parent_id or "", item.passage.chunk)
        kept.setdefault(chunk.id, replace(item, passage=replace(item.passage, chunk=chunk)))
    return list(kept.values())
