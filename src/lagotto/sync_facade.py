"""KnowledgeBase: the same verbs as AsyncKnowledgeBase, blocking.

The work is done on an event loop in a thread of its own, so it also works in a notebook, or inside
a program that runs a loop already.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from lagotto.embedders import Embedder
from lagotto.embedders.chunk_embedder import Pooling
from lagotto.errors import StoreError
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.prefs import RetrievalPrefs
from lagotto.rerankers import Reranker
from lagotto.retrieval.base import Retriever
from lagotto.retrieval.query.expansion import Expander
from lagotto.stores.base import Store

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lagotto", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. An interrupt cancels it, and waits until it has ended."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(coroutine))
            tasks[0].add_done_callback(lambda task: _settle(outcome, task))

        self._loop.call_soon_threadsafe(start)
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                wait([outcome])
            raise

    def cancel_all(self) -> None:
        """Cancel what other threads have running, and wait until it has ended."""
        self.run(_cancel_others())

    def stop(self) -> None:
        """End the loop and its thread."""
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _settle(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(StoreError("this knowledge base was closed before the call ended"))
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def blocking(
    method: Callable[Concatenate[AsyncKnowledgeBase, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[KnowledgeBase, P], T]:
    """`method` of the asynchronous base, run to its end."""

    @wraps(method)
    def call(self: KnowledgeBase, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.base, *args, **kwargs))

    return call


class KnowledgeBase:
    """Documents that can be searched; see AsyncKnowledgeBase, of which this is the blocking form.

    It is open when it is made. Any number of threads may use it.
    """

    def __init__(
        self,
        location: str | Path | Store = "lagotto.db",
        *,
        embedder: str | Embedder | None = None,
        chunker: str | None = None,
        pooling: Pooling | None = None,
        reranker: str | Reranker | None = None,
        expander: Expander | None = None,
        prefs: RetrievalPrefs | str | None = None,
        text_index: str | None = None,
    ) -> None:
        self.base = AsyncKnowledgeBase(
            location,
            embedder=embedder,
            chunker=chunker,
            pooling=pooling,
            reranker=reranker,
            expander=expander,
            prefs=prefs,
            text_index=text_index,
        )
        self._loop = LoopThread()
        self._closed = False
        try:
            self.run(self.base.open())
        except BaseException:
            self._loop.stop()
            raise

    add = blocking(AsyncKnowledgeBase.add)
    sync = blocking(AsyncKnowledgeBase.sync)
    remove = blocking(AsyncKnowledgeBase.remove)
    rebuild = blocking(AsyncKnowledgeBase.rebuild)
    documents = blocking(AsyncKnowledgeBase.documents)
    get = blocking(AsyncKnowledgeBase.get)
    chunks = blocking(AsyncKnowledgeBase.chunks)
    retrieve = blocking(AsyncKnowledgeBase.retrieve)
    retrieve_many = blocking(AsyncKnowledgeBase.retrieve_many)
    search = blocking(AsyncKnowledgeBase.search)
    context = blocking(AsyncKnowledgeBase.context)
    resolve = blocking(AsyncKnowledgeBase.resolve)
    why_not = blocking(AsyncKnowledgeBase.why_not)
    info = blocking(AsyncKnowledgeBase.info)

    @property
    def retriever(self) -> Retriever:
        """The retriever of this base, which is asynchronous: `kb.run(kb.retriever.search(...))`."""
        return self.base.retriever

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the base's own loop."""
        if self._closed:
            coroutine.close()
            raise StoreError("this knowledge base is closed; make a new one")
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Close the base, cancelling calls of other threads; may be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self._loop.cancel_all()
            self._loop.run(self.base.close())
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
