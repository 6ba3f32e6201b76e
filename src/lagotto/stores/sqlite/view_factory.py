"""The beginning of a search in the embedded store: one state of the file and of all indexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lagotto._internal.concurrency import checkpoint, interruptible
from lagotto._internal.display import counted
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import And, Filter
from lagotto.indexes.base import START, LogPosition, VectorIndex
from lagotto.indexes.updater import IndexUpdater
from lagotto.stores.base import DegradedLeg
from lagotto.stores.sql.changelog import SqlChangeLog, read_head
from lagotto.stores.sql.view import IndexTooFarBehind, SqlView, State, ViewFactory, both_refreshed
from lagotto.stores.sqlite.database import (
    DriverHandle,
    SqliteConnection,
    SqliteReader,
    damage_errors,
    store_errors,
)

if TYPE_CHECKING:
    from lagotto.stores.sqlite.store import SqliteStore

ATTEMPTS = 1_000
"""How often a view is tried again because another search has taken an index further meanwhile."""


class SqliteViews(ViewFactory):
    """Makes the views of a store."""

    def __init__(self, store: SqliteStore, updater: IndexUpdater) -> None:
        super().__init__(updater, in_threads=True)
        self._store = store
        self._ready: State | None = None
        """The last state that all indexes have caught up with, unless one is behind a network:
        that has to be asked how far it has come."""
        self._requested: LogPosition | None = None
        self.damaged: set[int] = set()
        """Chunks whose vectors were left out of the index, as they are none."""

    def clear(self) -> None:
        """Forget the last state: the store is closed."""
        self._ready = self._requested = self._newer = self._overlay = None

    @property
    def are_used(self) -> bool:
        """Whether there have been searches."""
        return self._ready is not None or self._newer is not None

    def read_ahead(self) -> None:
        """Read what the first search after a write would have to read."""
        with store_errors(self._store.path), ExitStack() as stack, suppress(IndexTooFarBehind):
            self._read(And(), stack, DriverHandle(), None)

    def cached(self, where: Filter, stack: ExitStack) -> SqlView | None:
        """A view without changing threads, None unless all it needs is cached for this state.

        Worth it: changing threads takes as long as all the rest.
        """
        ready = self._ready
        if ready is None or (where != And() and (where.cache_key, ready.token) not in self.cache):
            return None
        with ExitStack() as mine, suppress(IndexTooFarBehind):
            connection = mine.enter_context(self._store.database.connection())
            with damage_errors(self._store.path):
                if read_head(connection) != (ready.position.seq, ready.token):
                    return None
                view = self._at_state(connection, where, ready, None)
            if view is not None:
                stack.push(mine.pop_all())
            return view
        return None

    async def view(self, where: Filter, stack: ExitStack) -> SqlView:
        """A view, once the indexes lack few enough changes."""

        async def attempt(gave_up: StoreError | None) -> SqlView:
            driver = DriverHandle()
            read = partial(self._read, where, stack, driver, gave_up)
            return await interruptible(read, interrupt=driver.interrupt)

        return await self.until_indexed(attempt)

    def _read(
        self, where: Filter, stack: ExitStack, driver: DriverHandle, gave_up: StoreError | None
    ) -> SqlView:
        """A read transaction, and all that the search needs of the same state.

        IndexTooFarBehind if an index has to catch up first; `gave_up` says why it can't.
        """
        path = self._store.path
        with ExitStack() as mine:
            connection = mine.enter_context(self._store.database.connection())
            driver.driver = connection.driver
            for _ in range(ATTEMPTS):
                checkpoint()
                with damage_errors(path):
                    head = read_head(connection)
                    generation = self._store.reload_if_rebuilt(connection)
                    view: SqlView | None = None
                    if generation is not None:
                        state = State(head.token, head.position(connection), generation)
                        view = self._at_state(connection, where, state, gave_up)
                if view is not None:
                    stack.push(mine.pop_all())
                    return view
                self._begin_anew(connection)
        raise StoreBusyError(
            f"{path} changes faster than it can be read; try again when there are fewer writes"
        )

    def _begin_anew(self, connection: SqliteConnection) -> None:
        """Begin a transaction that sees what the indexes have seen.

        If it does not, the base is older than its indexes: a backup was restored.
        """
        indexes = self._store.search_indexes.open.by_role().values()
        positions = [(index, index.position) for index in indexes]
        connection.rollback()
        changes = SqlChangeLog(connection)
        for index, position in positions:
            if changes.token_at(position.seq) != position.token:
                index.reset_if_at(position)

    def _at_state(
        self, connection: SqliteConnection, where: Filter, state: State, gave_up: StoreError | None
    ) -> SqlView | None:
        """None if an index is ahead of what the connection sees."""
        self._ready = None
        reader = SqliteReader(connection, path=self._store.path)
        changes = SqlChangeLog(connection, head=state.position, reader=reader)
        changes.damaged = self.damaged
        indexes = self._store.search_indexes.open
        down = both_refreshed(indexes)
        view = self.view_at(changes, where, state, indexes, down=down, gave_up=gave_up)
        if view is None:
            return None
        if indexes.vectors is not None:
            damaged = self._damaged_vectors(connection, indexes.vectors)
            view.degraded = [*view.degraded, *damaged]
        # Once for each state, and again as long as it fails.
        position = state.position
        if position != START and (position != self._requested or self.updater.problem):
            self._requested = position
            self.updater.request()
        if not view.degraded and not self._store.search_indexes.are_remote:
            self._ready = state
        return view

    def _damaged_vectors(
        self, connection: SqliteConnection, index: VectorIndex[SqlChangeLog]
    ) -> Iterator[DegradedLeg]:
        """A note on the vectors that can't be searched, as long as they are there."""
        if self.damaged:
            changes, keys = SqlChangeLog(connection), np.array(list(self.damaged), np.int64)
            changes.vectors_of(keys, model_id=index.model_id, dimension=index.dimension)
            self.damaged &= changes.damaged
        if self.damaged:
            damaged = counted(len(self.damaged), "chunk")
            why = f"the vectors of {damaged} are damaged; `lagotto doctor` names the documents"
            yield DegradedLeg("semantic", why)
