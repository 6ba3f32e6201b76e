"""What tests write to an index, and ask it for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lagotto.indexes.base import FilterKeys, Hits, LogPosition
from lagotto.indexes.tantivy.index import Batch, TantivyWriter
from lagotto.indexes.tantivy.search import TantivySnapshot
from lagotto.indexes.text_query import TextQuery


def write(
    index: TantivyWriter,
    since: int,
    seq: int,
    added: Iterable[tuple[int, Iterable[str]]] = (),
    removed: Iterable[int] = (),
    owners: Mapping[int, int] | None = None,
) -> None:
    """Apply the changes after `since` up to `seq` in one commit."""
    chunks = {key: ((owners or {}).get(key, key), " ".join(terms)) for key, terms in added}
    index.apply([Batch(chunks, removed, since, LogPosition(seq, 0))])


def search(
    snapshot: TantivySnapshot, query: TextQuery, k: int, *, allowed: FilterKeys | None = None
) -> Hits:
    return snapshot.search(query, k, allowed=allowed).hits[:k]
