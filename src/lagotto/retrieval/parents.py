"""Parents: small chunks are found, the larger ones around them are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lagotto.documents import Chunk
from lagotto.errors import StoreError
from lagotto.prefs import ParentsPrefs
from lagotto.retrieval.diagnostics import Diagnostics, raise_unless
from lagotto.retrieval.ranking import ChunkSource, Ranked


def parent_or_self(item: Ranked) -> str:
    """The id that a hit has once parents replace children: its parent's, or its own."""
    return item.passage.chunk.parent_id or item.passage.chunk.id


async def resolve_parents(
    source: ChunkSource, ranked: Sequence[Ranked], prefs: ParentsPrefs, diagnostics: Diagnostics
) -> list[Ranked]:
    """Replace or accompany hits with their parents; unchanged, and noted, if they can't be read."""
    children = [item.passage.chunk for item in ranked if item.passage.chunk.parent_id]
    if prefs.mode == "none" or not children:
        return list(ranked)
    try:
        parents = await source.parents(children)
    except Exception as exc:  # noqa: BLE001 a store of another package may raise anything
        raise_unless(StoreError, exc)
        diagnostics.note("parents", f"not read, children stand alone ({exc})", cause=exc)
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
            item = replace(item, passage=passage, child=child, evidence=None)
        kept.setdefault((child.collection, item.passage.chunk.id), item)
    return list(kept.values())


def _accompanied(item: Ranked, parents: Mapping[str, Chunk], prefs: ParentsPrefs) -> Ranked:
    parent = parents.get(item.passage.chunk.parent_id or "")
    if parent is None:
        return item
    if prefs.mode == "attach":
        return replace(item, parent=parent)
    return replace(item, section=parent.text[: prefs.section_chars])
