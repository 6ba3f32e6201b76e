"""Lets the indexes of a store follow the change log while documents are being added."""

from __future__ import annotations

import asyncio
import logging
import time

from lagotto.errors import StoreError
from lagotto.stores.base import Store

log = logging.getLogger(__name__)

SHORTEST_STEP = 2_000
LONGEST_STEP = 16_000
GROWTH = 8
"""A step is an eighth of what is indexed, within these limits: each one is a commit of its own."""

FEW = 200
"""Fewer changes are read by the next search, in some ten milliseconds, whichever process it is in;
a program that adds many documents one by one need not wait for as many commits."""


class BackgroundIndexing:
    """Indexes in steps, one at a time, beside whatever else an ingest does.

    Without it the first search after an ingest would have to index everything. An index that
    can't be written now does not stop an ingest: it follows at the next search.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting = 0
        self._indexed = 0
        self._step: asyncio.Task[None] | None = None

    def wrote(self, chunks: int) -> None:
        """Count chunks that were written, and start a step once there are enough of them."""
        self._waiting += chunks
        enough = min(max(self._indexed // GROWTH, SHORTEST_STEP), LONGEST_STEP)
        if self._waiting >= enough and (self._step is None or self._step.done()):
            self._start()

    async def finish(self) -> None:
        """Index the rest, unless it is little."""
        await self.settle()
        self._start(least=FEW)
        await self.settle()

    async def settle(self) -> None:
        """Wait for the step that is running."""
        if self._step is not None:
            await asyncio.shield(self._step)

    async def stop(self) -> None:
        """Give up the step that is running, if there is one: the next search continues it."""
        if self._step is not None:
            self._step.cancel()
            await asyncio.wait([self._step])

    def _start(self, *, least: int = 1) -> None:
        self._indexed += self._waiting
        self._waiting = 0
        self._step = asyncio.create_task(self._update(least))

    async def _update(self, least: int) -> None:
        started = time.monotonic()
        try:
            await self._store.update_indexes(least=least)
            log.info("indexes brought up to date in %.2f s", time.monotonic() - started)
        except StoreError as exc:
            log.warning("the indexes are not up to date, the next search continues: %s", exc)
