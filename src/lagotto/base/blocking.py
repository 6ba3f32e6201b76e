"""Blocking bases: the verbs of an asynchronous base, on an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from lagotto._internal.concurrency import LoopGuard
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.base.protocol import AsyncBase, FilterLike, first_documents
from lagotto.documents import Document
from lagotto.errors import StoreError
from lagotto.retrieval.retriever import Retriever

P = ParamSpec("P")
T = TypeVar("T")

PAGE = 500
"""Documents that `iter_documents` holds at once."""


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        try:
            self._loop = asyncio.new_event_loop()
        except OSError as exc:  # it needs file descriptors
            raise StoreError(f"no event loop can be made: {exc}; raise the limit") from exc
        self._thread = threading.Thread(target=self._loop.run_forever, name="lagotto", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. An interrupt cancels it, and waits until it has ended."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def settle(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                problem = "this knowledge base was closed before the call ended"
                outcome.set_exception(StoreError(problem))
            elif error := task.exception():
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        def start() -> None:
            tasks.append(self._loop.create_task(coroutine))
            tasks[0].add_done_callback(settle)

        self._loop.call_soon_threadsafe(start)
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                wait([outcome])
            raise

    def stop(self, closing: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel what is running, run `closing`, and end the loop and its thread."""
        try:
            self.run(_cancel_others())
            if closing is not None:
                self.run(closing())
        finally:
            self.run(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def stop_soon(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As `stop`, without waiting for it.

        For garbage collection, which may happen in the thread of the loop itself.
        """
        self._loop.call_soon_threadsafe(
            lambda: threading.Thread(target=self.stop, args=(closing,), daemon=True).start()
        )


async def _cancel_others() -> None:
    """Cancel what else is running, and wait until it has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The verb of this name of an asynchronous base, run to its end."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", self.run(getattr(self.base, name)(*args, **kwargs)))

    return call


Base = TypeVar("Base", bound=AsyncBase)


def making(
    kind: Callable[P, Base],
) -> Callable[[Callable[[Any, Base], None]], Callable[Concatenate[Any, P], None]]:
    """A constructor that takes what an asynchronous base is made with, and is called with it."""

    def decorate(init: Callable[[Any, Base], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(kind.__init__)
        def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            init(self, kind(*args, **kwargs))

        return call

    return decorate


class BlockingBase(Generic[Base]):
    """The verbs of an asynchronous base, blocking, on an event loop of their own.

    Creating it opens the base. Any number of threads can use it, but not a forked process: there
    every call raises StoreError, and the process has to open the base itself. A base that was not
    closed is closed, with a ResourceWarning, when it is garbage collected.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self._guard = LoopGuard()
        self._loop = LoopThread()
        self._closed = False
        try:
            self.run(base.open())
        except BaseException:
            self._loop.stop()
            raise
        self._unclosed = weakref.finalize(self, _close_unclosed, base, self._loop, self._guard)
        self._unclosed.atexit = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base.location!r})"

    add = blocking(AsyncBase.add)
    add_documents = blocking(AsyncBase.add_documents)
    prepare = blocking(AsyncBase.prepare)
    remove = blocking(AsyncBase.remove)
    documents = blocking(AsyncBase.documents)
    get = blocking(AsyncBase.get)
    chunks = blocking(AsyncBase.chunks)
    export_documents = blocking(AsyncBase.export_documents)
    import_documents = blocking(AsyncBase.import_documents)
    retrieve = blocking(AsyncBase.retrieve)
    retrieve_many = blocking(AsyncBase.retrieve_many)
    search = blocking(AsyncBase.search)
    context = blocking(AsyncBase.context)
    answer = blocking(AsyncBase.answer)
    resolve = blocking(AsyncBase.resolve)
    why_not = blocking(AsyncBase.why_not)
    judge = blocking(AsyncBase.judge)
    judgements = blocking(AsyncBase.judgements)
    info = blocking(AsyncBase.info)
    collections = blocking(AsyncBase.collections)

    def iter_documents(
        self, *, filters: FilterLike = None, collection: str | None = None
    ) -> Iterator[Document]:
        """Yield what `documents` returns, a few at a time, however many there are."""
        documents = self.base.iter_documents(filters=filters, collection=collection)
        while page := self.run(first_documents(documents, PAGE)):
            yield from page

    @property
    def retriever(self) -> Retriever:
        """The base as an asynchronous Retriever: `kb.run(kb.retriever.search(...))`."""
        return self.base.retriever

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the base, and return its result."""
        try:
            if self._closed:
                kind = type(self).__name__
                raise StoreError(f"{self.base.location} is closed; create a new {kind}")
            self._guard.check()
        except StoreError:
            coroutine.close()
            raise
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Close the base, and cancel calls of other threads; closing it again has no effect.

        In a forked process it returns at once: open files and connections belong to the parent.
        """
        if self._closed:
            return
        self._closed = True
        self._unclosed.detach()
        if self._guard.forked:
            return
        self._loop.stop(self.base.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class KnowledgeBase(BlockingBase[AsyncKnowledgeBase]):
    """A searchable collection of documents; the blocking form of AsyncKnowledgeBase.

    Creating it opens the base. Threads share it, forked processes open their own: see BlockingBase.
    """

    @making(AsyncKnowledgeBase)
    def __init__(self, base: AsyncKnowledgeBase) -> None:
        super().__init__(base)

    sync = blocking(AsyncKnowledgeBase.sync)
    rebuild = blocking(AsyncKnowledgeBase.rebuild)
    synonyms = blocking(AsyncKnowledgeBase.synonyms)
    set_synonyms = blocking(AsyncKnowledgeBase.set_synonyms)


def _close_unclosed(base: AsyncBase, loop: LoopThread, guard: LoopGuard) -> None:
    """Close a base that was garbage collected; nothing in a forked process."""
    if guard.forked:
        return
    loop.stop_soon(base.close)
    warnings.warn(
        f"the knowledge base {base.location} was not closed; call close(), or use `with`",
        ResourceWarning,
        stacklevel=2,
    )
