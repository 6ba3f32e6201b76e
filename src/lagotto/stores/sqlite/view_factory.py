"""The beginning of a search in the embedded store: one state of the file and of all indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from lagotto._internal.concurrency import checkpoint, interruptible
from lagotto._internal.display import counted
from lagotto.errors import (
    StoreBusyError,
    StoreError,
)
from lagotto.filters import And, Filter
from lagotto.indexes.base import (
    START,
    LogPosition,
    VectorIndex,
)
from lagotto.indexes.folder import file_errors
from lagotto.indexes.updater import IndexUpdater
from lagotto.stores.base import DegradedLeg
from lagotto.stores.sql.changelog import (
    SqlChangeLog,
    read_head,
    stored_vectors,
    token_at,
)
from lagotto.stores.sql.indexes import StoreIndexes
from lagotto.stores.sql.read import unit_vectors
from lagotto.stores.sql.view import IndexTooFarBehind, SqlView, State, ViewFactory, both_refreshed
from lagotto.stores.sqlite.database import (
    DriverHandle,
    SqliteConnection,
    SqliteDatabase,
    SqliteReader,
    damage_errors,
    sqlite_errors,
)

ATTEMPTS = 1_000
"""How often a view is tried again because another search has taken an index further meanwhile."""


class SqliteViews(ViewFactory):
    """Makes the views of a file.

    `reload_if_rebuilt` makes `indexes` those of the generation that a connection sees.
    """

    def __init__(
        self,
        path: Path,
        *,
        indexes: StoreIndexes,
        reload_if_rebuilt: Callable[[SqliteConnection], int | None],
        updater: IndexUpdater,
    ) -> None:
        super().__init__(updater, in_threads=True)
        self._path = path
        self._indexes = indexes
        self._reload_if_rebuilt = reload_if_rebuilt
        self._ready: State | None = None
        """The last state that all indexes have caught up with, unless one is behind a network:
        that has to be asked how far it has come."""
        self._requested: LogPosition | None = None
        self.damaged: set[int] = set()
        """Chunks whose vectors were left out of the index, as they are none."""

    def clear(self) -> None:
        """Forget the last state: the store is closed."""
        self._ready = self._requested = None
        self.snapshots.clear()

    @property
    def are_used(self) -> bool:
        """Whether there have been searches."""
        return self._ready is not None or self.snapshots.has_read

    def read_ahead(self, database: SqliteDatabase) -> None:
        """Read what the first search after a write would have to read."""
        with (
            sqlite_errors(self._path),
            file_errors(self._path),
            ExitStack() as stack,
            suppress(IndexTooFarBehind),
        ):
            self._read(database, And(), stack, DriverHandle(), None)

    def cached(self, database: SqliteDatabase, where: Filter, stack: ExitStack) -> SqlView | None:
        """A view without changing threads, None unless all it needs is cached for this state.

        Worth it: changing threads takes as long as all the rest.
        """
        ready = self._ready
        if ready is None:
            return None
        if where != And() and (where.cache_key, ready.token) not in self.cache:
            return None
        view: SqlView | None = None
        with ExitStack() as mine:
            connection = mine.enter_context(database.connection())
            with damage_errors(self._path), suppress(IndexTooFarBehind):
                if read_head(connection) != (ready.position.seq, ready.token):
                    return None
                view = self._at_state(connection, where, ready, None)
            if view is not None:
                stack.push(mine.pop_all())
        return view

    async def view(self, database: SqliteDatabase, where: Filter, stack: ExitStack) -> SqlView:
        """A view, once the indexes lack few enough changes."""

        async def attempt(gave_up: StoreError | None) -> SqlView:
            driver = DriverHandle()
            read = partial(self._read, database, where, stack, driver, gave_up)
            return await interruptible(read, interrupt=driver.interrupt)

        return await self.until_indexed(attempt)

    def _read(
        self,
        database: SqliteDatabase,
        where: Filter,
        stack: ExitStack,
        driver: DriverHandle,
        gave_up: StoreError | None,
    ) -> SqlView:
        """A read transaction, and all that the search needs of the same state.

        IndexTooFarBehind if an index has to catch up first; `gave_up` says why it can't.
        """
        with ExitStack() as mine:
            connection = mine.enter_context(database.connection())
            driver.hold(connection.driver)
            for _ in range(ATTEMPTS):
                checkpoint()
                with damage_errors(self._path):
                    state = self._state(connection)
                    view = self._at_state(connection, where, state, gave_up) if state else None
                if view is not None:
                    stack.push(mine.pop_all())
                    return view
                self._begin_anew(connection)
        raise StoreBusyError(
            f"{self._path} changes faster than it can be read; try again when there are "
            "fewer writes"
        )

    def _state(self, connection: SqliteConnection) -> State | None:
        """None if the base has been rebuilt since the transaction began."""
        head = read_head(connection)
        generation = self._reload_if_rebuilt(connection)
        if generation is None:
            return None
        return State(head.token, head.position(connection), generation)

    def _begin_anew(self, connection: SqliteConnection) -> None:
        """Begin a transaction that sees what the indexes have seen.

        If it does not, the base is older than its indexes: a backup was restored.
        """
        indexes = self._indexes.open.by_role().values()
        positions = [(index, index.position) for index in indexes]
        connection.rollback()
        for index, position in positions:
            if token_at(connection, position.seq) != position.token:
                index.reset_if_at(position)

    def _at_state(
        self, connection: SqliteConnection, where: Filter, state: State, gave_up: StoreError | None
    ) -> SqlView | None:
        """None if an index is ahead of what the connection sees."""
        self._ready = None
        reader = SqliteReader(connection, path=self._path)
        changes = SqlChangeLog(connection, head=state.position, reader=reader)
        changes.damaged = self.damaged
        indexes = self._indexes.open
        down = both_refreshed(indexes)
        view = self.view_at(changes, where, state, indexes, down=down, gave_up=gave_up)
        if view is None:
            return None
        if indexes.vectors is not None:
            damaged = self._damaged_vectors(connection, indexes.vectors)
            view.degraded = [*view.degraded, *damaged]
        self._request_indexing(state.position)
        if not view.degraded and not self._indexes.are_remote:
            self._ready = state
        return view

    def _damaged_vectors(
        self, connection: SqliteConnection, index: VectorIndex[SqlChangeLog]
    ) -> Iterator[DegradedLeg]:
        """A note on the vectors that can't be searched, as long as they are there."""
        if self.damaged:
            rows = stored_vectors(connection, self.damaged, model_id=index.model_id)
            whole, _ = unit_vectors(rows, index.dimension)
            self.damaged &= {key for key, _ in rows} - set(whole.tolist())
        if self.damaged:
            damaged = counted(len(self.damaged), "chunk")
            why = f"the vectors of {damaged} are damaged; `lagotto doctor` names the documents"
            yield DegradedLeg("semantic", why)

    def _request_indexing(self, position: LogPosition) -> None:
        """Request that the indexes catch up in the background, once for each state.

        And again as long as it fails.
        """
        if position != START and (position != self._requested or self.updater.problem):
            self._requested = position
            self.updater.request()
