"""Indexes by name: what a base may be made with.

An entry point in `lagotto.text_indexes` or `lagotto.vector_indexes` adds one. It names a function
that takes an IndexSite (and for vectors the model) and returns a TextIndex or VectorIndex. The
indexes inside PostgreSQL are not chosen by name: a base there always has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lagotto.documents import digest
from lagotto.indexes.base import TextIndex, VectorIndex
from lagotto.indexes.folder import IndexFolder
from lagotto.registry import Registry


@dataclass(frozen=True, slots=True)
class IndexSite:
    """Where an index of a base may keep its files, and how many seconds it waits for a lock.

    `generation` counts how often the base was rebuilt; each has indexes of its own.
    """

    indexes: IndexFolder
    timeout: float
    generation: int = 0

    def folder(self, role: str, made_with: str) -> Path:
        """The folder of an index; other rules or another model need another one."""
        rebuilt = (self.generation,) if self.generation else ()
        name = digest(self.indexes.base_id, made_with, *rebuilt)[:8]
        return self.indexes.path / f"{role}-{name}"


class TextIndexFactory(Protocol):
    """Makes the text index of a base."""

    def __call__(self, site: IndexSite, /) -> TextIndex[Any]: ...


class VectorIndexFactory(Protocol):
    """Makes the vector index of a base for one model."""

    def __call__(
        self, site: IndexSite, /, *, model_id: str, dimension: int
    ) -> VectorIndex[Any]: ...


TEXT_INDEXES: Registry[TextIndexFactory] = Registry(
    "text index",
    group="lagotto.text_indexes",
    builtin={
        "tantivy": "lagotto.indexes.tantivy.index:open_tantivy",
        "fts5": "lagotto.stores.sqlite.fts5_index:open_fts5",
    },
)

VECTOR_INDEXES: Registry[VectorIndexFactory] = Registry(
    "vector index",
    group="lagotto.vector_indexes",
    builtin={"exact": "lagotto.indexes.vectors.index:open_vectors"},
)
