"""Request contexts: cancellation, deadline and trace id of a search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from lagotto.errors import ConfigError, DeadlineExceeded, SearchCancelled

Reason = type[SearchCancelled] | type[DeadlineExceeded]

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class CancellationToken:
    """Cancels the searches that use it, from any thread; once fired it stays fired."""

    def __init__(self) -> None:
        # Without a lock, since a signal handler may fire: whoever pops a listener calls it.
        self._fired = False
        self._listeners: dict[object, Callable[[], object]] = {}

    @property
    def fired(self) -> bool:
        """Whether `fire` has been called."""
        return self._fired

    def fire(self) -> None:
        """Cancel all searches that use this token; firing again does nothing."""
        self._fired = True
        while True:
            try:
                _, listener = self._listeners.popitem()
            except KeyError:
                return
            listener()

    def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
        """Call `listener` when fired, at once if it has been; returns a function to unsubscribe."""
        name = object()
        self._listeners[name] = listener
        if self._fired and self._listeners.pop(name, None) is not None:
            listener()
        return partial(self._listeners.pop, name, None)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The context of one search.

    `timeout` is in seconds from now on. `collection`, if given, is the only one searched.
    `trace_id` is in the errors of a request that is stopped and, with `debug`, in its stats.
    """

    cancellation: CancellationToken | None = None
    timeout: float | None = None
    collection: str | None = None
    trace_id: str = field(default_factory=lambda: uuid4().hex)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"timeout is {self.timeout}; it must be a number of seconds above 0")

    @property
    def deadline(self) -> float | None:
        """The deadline on the clock of `time.monotonic`, or None."""
        return None if self.timeout is None else self.started + self.timeout

    def remaining(self) -> float | None:
        """Seconds until the deadline, or None."""
        return _until(self.deadline)


def time_left() -> float | None:
    """Seconds until the deadline of the search that runs in the current task, or None.

    For code that has no RequestContext, such as a store that passes a timeout to its server.
    """
    return _until(_deadline.get())


@asynccontextmanager
async def cancel_scope(context: RequestContext) -> AsyncIterator[None]:
    """Cancel the body when the token fires or the deadline passes.

    Raises SearchCancelled or DeadlineExceeded then. A cancellation from outside is passed on.
    """
    task = asyncio.current_task()
    assert task is not None, "a search runs in a task"
    if context.cancellation and context.cancellation.fired:
        raise _stopped(SearchCancelled, context)
    if context.remaining() == 0:
        raise _stopped(DeadlineExceeded, context)
    earlier = task.cancelling()
    reasons: list[Reason] = []
    try:
        with _listening(context, task, reasons), _current_deadline(context.deadline):
            yield
    except asyncio.CancelledError:
        if not reasons or task.cancelling() - 1 > earlier:  # from outside, alone or in addition
            raise
    finally:
        if reasons:
            task.uncancel()
    if reasons:  # even if the body ignored the cancellation
        raise _stopped(reasons[0], context)


@contextmanager
def _listening(
    context: RequestContext, task: asyncio.Task[object], reasons: list[Reason]
) -> Iterator[None]:
    """Cancel `task` once if the token fires or the deadline passes, and record the reason."""
    loop = asyncio.get_running_loop()
    finished = False

    def stop(reason: Reason) -> None:
        if not reasons and not finished:
            reasons.append(reason)
            task.cancel()

    def fired() -> None:
        with suppress(RuntimeError):  # the loop is closed, so the search is over
            loop.call_soon_threadsafe(stop, SearchCancelled)

    unsubscribe = context.cancellation.listen(fired) if context.cancellation else None
    remaining = context.remaining()
    timer = None if remaining is None else loop.call_later(remaining, stop, DeadlineExceeded)
    try:
        yield
    finally:
        finished = True
        if unsubscribe:
            unsubscribe()
        if timer:
            timer.cancel()


@contextmanager
def _current_deadline(deadline: float | None) -> Iterator[None]:
    """Make `deadline`, or an earlier one of an outer scope, the one that `time_left` uses."""
    both = (deadline, _deadline.get())
    former = _deadline.set(min((moment for moment in both if moment is not None), default=None))
    try:
        yield
    finally:
        _deadline.reset(former)


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _stopped(reason: Reason, context: RequestContext) -> SearchCancelled | DeadlineExceeded:
    if reason is DeadlineExceeded:
        return DeadlineExceeded(
            f"the search exceeded its timeout of {context.timeout:g} s (trace {context.trace_id})"
        )
    return SearchCancelled(
        f"the search was cancelled by its cancellation token (trace {context.trace_id})"
    )
