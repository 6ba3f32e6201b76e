"""The indexes of a base that are not tables of its database: opened as its settings say."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from lagotto.errors import IndexUnavailableError, StoreError
from lagotto.indexes import registry
from lagotto.indexes.base import Finding, IndexRole, IndexState, TextIndex, VectorIndex
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.registry import IndexChoice, IndexSite, open_text_index, open_vector_index
from lagotto.stores.base import BaseConfig
from lagotto.stores.sql.changelog import AnyIndex, SqlChangeLog

IN_TABLES = frozenset({"postings", "pgvector"})


class IndexPair(NamedTuple):
    """The indexes that are open; there is none of vectors as long as there are no vectors."""

    text: TextIndex[SqlChangeLog] | None = None
    vectors: VectorIndex[SqlChangeLog] | None = None

    def by_role(self) -> dict[IndexRole, AnyIndex]:
        pairs: dict[IndexRole, AnyIndex | None] = {"text": self.text, "vectors": self.vectors}
        return {role: index for role, index in pairs.items() if index is not None}

    def refresh(self) -> Mapping[IndexRole, StoreError]:
        """Ask the indexes how far they have come; why some can't be reached.

        Blocks if one is behind a network, and reads nothing of the record.
        """
        down: dict[IndexRole, StoreError] = {}
        for role, index in self.by_role().items():
            try:
                index.refresh()
            except IndexUnavailableError as exc:
                down[role] = exc
        return down

    def close(self) -> None:
        for index in self.by_role().values():
            index.close()


class StoreIndexes:
    """Opens the indexes of a base, and others once it has been rebuilt.

    `usual` are those of a new base, `wanted` those that the user names: a base keeps the kinds of
    indexes that it has, but uses them at the addresses that the user gives.
    """

    def __init__(
        self, wanted: IndexChoice, *, usual: IndexChoice, location: str, timeout: float
    ) -> None:
        self.wanted = wanted
        self.choice = IndexChoice()
        self.open = IndexPair()
        self.location = location
        self._usual = usual
        self._site = IndexSite("", timeout)
        self._made_for: tuple[object, object] = (None, None)
        self.generation: int | None = None
        self._adapting = threading.Lock()

    @property
    def are_remote(self) -> bool:
        """Whether one of them is behind a network: it has to be asked how far it has come."""
        return any(index.remote for index in self.open.by_role().values())

    def place(self, base_id: str, folder: IndexFolder | None = None) -> None:
        """Say whose they are, and where those go that are files."""
        self._site = replace(self._site, base_id=base_id, indexes=folder)

    def chosen(self, stored: BaseConfig) -> IndexChoice:
        """The indexes of a base, at the addresses that the user gave, if any."""
        pairs = (
            (stored.text_index, self.wanted.text, self._usual.text, "text"),
            (stored.vector_index, self.wanted.vectors, self._usual.vectors, "vector"),
        )
        text, vectors = (
            registry.chosen(has, wanted, usual=usual or "", role=role, location=self.location)
            for has, wanted, usual, role in pairs
        )
        return IndexChoice(text, vectors)

    def adapt(self, config: BaseConfig) -> None:
        """Open the indexes that a base has now, unless they are open; close former ones."""
        with self._adapting:
            if self.generation != config.generation:
                self.choice = self.chosen(config) if self.generation is None else _stored(config)
                self.generation = config.generation
            text = (config.generation, self.choice.text)
            vectors = (config.generation, self.choice.vectors, config.model_id, config.dimension)
            if (text, vectors) == self._made_for:
                return
            former, opened = self.open, self.open_for(config, self.choice)
            if text == self._made_for[0]:
                opened = opened._replace(text=former.text)
            self.open, self._made_for = opened, (text, vectors)
            for index in former.by_role().values():
                if index not in opened:
                    index.abandon()

    def open_for(self, config: BaseConfig, choice: IndexChoice | None = None) -> IndexPair:
        """The indexes of a generation of the base; `choice` has their addresses."""
        choice = choice or _stored(config)
        site = replace(self._site, generation=config.generation)
        text = vectors = None
        if choice.text not in IN_TABLES:
            text = open_text_index(replace(site, address=choice.text or self._usual.text or ""))
        model, dimension = config.model_id, config.dimension
        if choice.vectors not in IN_TABLES and model and dimension:
            site = replace(site, address=choice.vectors or self._usual.vectors or "")
            vectors = open_vector_index(site, model_id=model, dimension=dimension)
        return IndexPair(text, vectors)

    def states(self, changes: SqlChangeLog) -> Iterator[IndexState]:
        """How far each index has come, as far as it is known."""
        for role, index in self.open.by_role().items():
            applied, last = index.applied_seq(changes), changes.head.seq
            yield IndexState(role=role, kind=index.kind, applied_seq=applied, changes=last)

    def check(self, changes: SqlChangeLog) -> list[Finding]:
        indexes = self.open.by_role().values()
        return [index.check(changes) for index in indexes if changes.head.seq]

    def close(self) -> None:
        self.open.close()
        self.open, self._made_for, self.generation = IndexPair(), (None, None), None


def _stored(config: BaseConfig) -> IndexChoice:
    return IndexChoice(config.text_index, config.vector_index)
