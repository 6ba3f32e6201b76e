"""Rebuilding a base from its stored documents, with other chunks, vectors or indexes.

The next generation is built beside the current one, which still serves searches and accepts
documents. Each step is durable, so that an interrupted rebuild can be resumed. Changes to the
documents meanwhile are applied until both generations have the same documents; then all chunks and
vectors are replaced in one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lagotto._internal.display import counted
from lagotto.base.copy import Name, read_entries
from lagotto.base.ingest import Ingest, Progress
from lagotto.base.parts import BaseParts
from lagotto.documents import Document, Record
from lagotto.errors import StoreBusyError, StoreError
from lagotto.filters import And
from lagotto.indexes.registry import IndexChoice, named
from lagotto.stores.base import BaseConfig, Staging, Store

BATCH_DOCUMENTS = 500
MOST_ROUNDS = 100
"""How often documents may change between the last check and the switch."""


class RebuildProgress(Record):
    """How far a rebuild has got: `done` of all `documents` are ready for the switch.

    `resumed` of them were ready when it began. `chunks` are those made by this run.
    """

    documents: int = 0
    done: int = 0
    resumed: int = 0
    chunks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        resumed = f", {self.resumed} of them before" if self.resumed else ""
        return (
            f"{counted(self.done, 'document')} rebuilt{resumed} "
            f"({counted(self.chunks, 'chunk')}, {self.seconds:.1f} s)"
        )


OnProgress = Callable[[RebuildProgress], None]


async def rebuild_base(
    store: Store,
    parts: BaseParts,
    *,
    text_index: str | None = None,
    vector_index: str | None = None,
    cut_again: bool = False,
    progress: OnProgress | None = None,
) -> RebuildProgress:
    """Rebuild a base with `parts`, and with other indexes if these are named.

    Where the model stays the same, chunks and vectors are taken over, and only the indexes are
    rebuilt; unless `cut_again` is set, for another chunker, or one whose boundaries have changed.
    """
    stored = await store.config()
    indexes = IndexChoice.of(
        text_index=text_index, vector_index=vector_index or stored.vector_index
    )
    for choice in (indexes.text, indexes.vectors):
        if choice is not None and choice in (text_index, vector_index):
            named(choice)  # others are what the base names
    config = parts.config.model_copy(
        update={
            "text_index": indexes.text or stored.text_index,
            "vector_index": indexes.vectors,
            "generation": stored.generation + 1,
        }
    )
    same = (stored.model_id, stored.dimension) == (config.model_id, config.dimension)
    async with store.staging(config) as staging:
        report = progress or (lambda _: None)
        return await _Rebuild(store, staging, parts, config, same and not cut_again, report).run()


@dataclass(eq=False)
class _Rebuild:
    store: Store
    staging: Staging
    parts: BaseParts
    config: BaseConfig
    take_over: bool
    on_progress: OnProgress

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._done = RebuildProgress()

    async def run(self) -> RebuildProgress:
        resumed, _ = await self._pending()
        self._report(resumed=resumed, done=resumed)
        for _ in range(MOST_ROUNDS):
            ready, missing = await self._pending()
            self._report(documents=ready + len(missing), done=ready)
            for start in range(0, len(missing), BATCH_DOCUMENTS):
                names = missing[start : start + BATCH_DOCUMENTS]
                if self.take_over:
                    names = await self._copy(names)
                if documents := await self.staging.documents(names):
                    await self._make(documents)
            await self.staging.build_indexes()
            if await self.staging.switch():
                self._report()
                return self._done
        raise StoreBusyError(
            f"{self.store.location} changes faster than it is rebuilt; the rebuild is kept, run "
            "it again when there are fewer writes"
        )

    async def _pending(self) -> tuple[int, list[Name]]:
        """How many documents are ready, and which are not."""
        missing = await self.staging.pending()
        return max(0, (await self.store.info()).documents - len(missing)), missing

    async def _copy(self, names: Sequence[Name]) -> list[Name]:
        """Take over documents with their chunks and vectors; the names of those made otherwise.

        Those were copied from a base with another chunker.
        """
        async with self.store.view(And()) as view:
            entries = await read_entries(view, names, await view.stored(names), self.config)
        alike = [
            entry
            for entry in entries
            if {chunk.chunker_id for chunk in entry.chunks} == {self.config.chunker_id}
        ]
        if alike:
            await self.staging.write(alike)
            chunks = sum(len(entry.vectors) for entry in alike)
            self._report(done=self._done.done + len(alike), chunks=self._done.chunks + chunks)
        refs = {entry.document.ref for entry in alike}
        return [name for name in names if name not in refs]

    async def _make(self, documents: Sequence[Document]) -> None:
        before = self._done

        def report(done: Progress) -> None:
            self._report(done=before.done + done.documents, chunks=before.chunks + done.chunks)

        ingest = Ingest(
            store=self.store,
            staging=self.staging,
            chunker=self.parts.chunker,
            vectors=self.parts.vectors,
            embedder=self.parts.spec,
            on_progress=report,
        )
        failures = (await ingest.run(documents)).failures
        if failures:
            raise StoreError(
                f"{self.store.location} can't be rebuilt with {failures[0]}; remove the "
                "document, or choose other parts; the base is as it was"
            )

    def _report(self, **changes: int) -> None:
        seconds = time.monotonic() - self._started
        self._done = self._done.model_copy(update={**changes, "seconds": seconds})
        self.on_progress(self._done)
