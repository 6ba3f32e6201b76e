"""One state of the index: the service proposes, the record confirms and scores.

The service has no snapshots. A search of a state sees the documents with keys up to its position;
the record says which of them exist, and has the vectors that decide the scores. Documents of
removed chunks are deleted a while later, so a search of an earlier state still finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.concurrency import in_thread
from lagotto.documents import Vector
from lagotto.errors import IndexUnavailableError
from lagotto.indexes.base import ChangeLog, ChunkKeys, FilterKeys, LogPosition
from lagotto.indexes.hits import NO_HITS, Hits
from lagotto.indexes.pinecone.metadata import collections_of, condition
from lagotto.indexes.pinecone.names import namespace
from lagotto.indexes.pinecone.progress import NOTHING, WriteMark
from lagotto.indexes.pinecone.service import DEEPEST, PineconeService, Proposals
from lagotto.indexes.record_vectors import RecordVectors
from lagotto.indexes.vectors.snapshot import check_vectors

FEW = 1_000
"""So many allowed chunks are scored from the record, without a request."""

OVERFETCH = 20
"""Documents that are asked for beyond twice as many as wanted: some are removed or newer, and the
service ranks by approximations."""

DEEPER = 4

PAUSES = (0.05, 0.1, 0.2)
"""Seconds to wait before another try, if a search reflects less than an earlier one did: it was
answered by a copy of the namespace that is behind."""

MOST_MISSING = 20_000
"""Changes that are read from the record in place of what such a copy lacks."""


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """Where to search, and under which condition."""

    namespaces: Sequence[str]
    where: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class IndexView:
    """What a snapshot knows of its index, at the time it was made.

    `marks` are the positions that the service had reached, the last is that of the snapshot.
    """

    service: PineconeService
    name: str
    epoch: str
    marks: Sequence[WriteMark]
    crowded: bool
    model_id: str
    dimension: int
    saw: Callable[..., None]
    """Is told the number that a search in a namespace had reached; `at_most`, after some tries."""

    def question(self, allowed: FilterKeys | None) -> NamespaceQuery:
        """What to ask for the chunks that a filter allows."""
        used = self.marks[-1].writes
        where = allowed.where if allowed is not None else None
        if where is None:
            return NamespaceQuery(list(used), None)
        collections = collections_of(where)
        names = {namespace(self.name, self.epoch, some) for some in collections or ()}
        return NamespaceQuery(
            [name for name in used if collections is None or name in names],
            condition(where, crowded=self.crowded),
        )

    def reached(self, answers: Mapping[str, Proposals]) -> WriteMark:
        """The last mark whose writes all answers reflect."""
        for mark in reversed(self.marks):
            writes = {name: number for name, number in mark.writes.items() if name in answers}
            if all(answers[name].reached >= number for name, number in writes.items()):
                return mark
        return NOTHING


class PineconeSnapshot:
    """A VectorSnapshot at the last of the marks of a view."""

    immediate = False

    def __init__(self, view: IndexView, changes: ChangeLog) -> None:
        self._view = view
        self._changes = changes
        self._record = RecordVectors(changes, model_id=view.model_id, dimension=view.dimension)

    @property
    def indexed_up_to(self) -> LogPosition:
        return self._view.marks[-1].position

    async def search(self, query: Vector, *, k: int, allowed: FilterKeys | None) -> Hits:
        check_vectors(query[None], dimension=self._view.dimension)
        among = None if allowed is None else self._included(allowed.keys)
        if k < 1 or self._view.marks[-1] == NOTHING:
            return NO_HITS
        if among is not None and len(among) <= max(FEW, k):
            return await self._record.best(query, among, k=k)
        question = self._view.question(allowed)
        depth = min(DEEPEST, 2 * k + OVERFETCH)
        while True:
            answers, reached = await self._ask(query, question, depth)
            found = partial(self._confirmed, query, _keys(answers), allowed, k, reached)
            hits = await self._changes.run(found)
            if len(hits) == k:
                return hits
            if depth == DEEPEST or all(len(some.ids) < depth for some in answers.values()):
                break
            depth = min(DEEPEST, DEEPER * depth)
        if among is None:
            return await self._record.best_of_all(query, k=k, last=self.indexed_up_to.number)
        return await self._record.best(query, among, k=k)

    async def scores(self, query: Vector, keys: ChunkKeys) -> NDArray[np.float32]:
        check_vectors(query[None], dimension=self._view.dimension)
        return await self._record.scores(query, keys)

    async def _ask(
        self, query: Vector, question: NamespaceQuery, depth: int
    ) -> tuple[Mapping[str, Proposals], WriteMark]:
        """What each namespace proposes, and the mark that all of them have reached."""
        last = self._view.marks[-1]
        for pause in (*PAUSES, None):
            found = await asyncio.gather(
                *(
                    in_thread(
                        self._view.service.nearest,
                        name,
                        query,
                        top_k=depth,
                        where=question.where,
                    )
                    for name in question.namespaces
                )
            )
            answers = dict(zip(question.namespaces, found, strict=True))
            for name, some in answers.items():
                self._view.saw(name, some.reached, at_most=pause is None)
            reached = self._view.reached(answers)
            if reached == last or pause is None:
                break
            await asyncio.sleep(pause)
        if last.number - reached.number > MOST_MISSING:
            raise IndexUnavailableError(
                f"the Pinecone index {self._view.service.name!r} answers as of change "
                f"{reached.number}, although it had reached {last.number}; try again later"
            )
        return answers, reached

    def _confirmed(
        self,
        query: Vector,
        proposed: ChunkKeys,
        allowed: FilterKeys | None,
        k: int,
        reached: WriteMark,
    ) -> Hits:
        """The best of what was proposed, and of what the answers may lack."""
        last, head = self.indexed_up_to.number, self._changes.head.number
        lacking = [proposed]
        if reached.number < last:
            lacking.append(self._record.added(reached.number, last)[0])
        if allowed is not None and reached.number < head:
            # documents with other metadata than the condition was asked of
            lacking.append(self._changes.updated(reached.number, head))
        keys = self._included(np.unique(np.concatenate(lacking)))
        if allowed is not None:
            keys = keys[allowed.contains(keys)]
        return self._record.best_of(query, keys, k=k)

    def _included(self, keys: ChunkKeys) -> ChunkKeys:
        """Those of ascending keys that are not newer than the snapshot."""
        return keys[: np.searchsorted(keys, self.indexed_up_to.number, side="right")]


def _keys(answers: Mapping[str, Proposals]) -> ChunkKeys:
    return np.array([int(id) for some in answers.values() for id in some.ids], np.int64)
