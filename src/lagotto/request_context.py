"""What a search carries with it besides its preferences: cancellation, deadline, trace id."""

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
    """Stops the searches that carry it, from any thread; once fired it stays fired."""

    def __init__(self) -> None:
        # No lock, which a signal handler could find taken: whoever pops a listener calls it.
        self._fired = False
        self._listeners: dict[object, Callable[[], object]] = {}

    @property
    def fired(self) -> bool:
        """Whether `fire` was called."""
        return self._fired

    def fire(self) -> None:
        """Stop what carries this token; a second time does nothing."""
        self._fired = True
        while True:
            try:
                _, listener = self._listeners.popitem()
            except KeyError:
                return
            listener()

    def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
        """Call `listener` when fired, at once if that has happened; returns how to stop."""
        name = object()
        self._listeners[name] = listener
        if self._fired and self._listeners.pop(name, None) is not None:
            listener()
        return partial(self._listeners.pop, name, None)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, and for how long: goes with one search from its start to its end.

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
            raise ConfigError(f"timeout is {self.timeout}; give a number of seconds above 0")

    @property
    def deadline(self) -> float | None:
        """When the time is up, as `time.monotonic` counts; None for never."""
        return None if self.timeout is None else self.started + self.timeout

    def remaining(self) -> float | None:
        """Seconds until the deadline, None without one."""
        return _until(self.deadline)


def time_left() -> float | None:
    """Seconds until the deadline of the search that the current task works for, None without one.

    For parts that a RequestContext is not handed to, such as a server that should stop as well.
    """
    return _until(_deadline.get())


@asynccontextmanager
async def cancel_scope(context: RequestContext) -> AsyncIterator[None]:
    """Cancel the work inside when the token fires or the time is up, and say which it was.

    A cancellation from outside stays what it is.
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
        with _listening(context, task, reasons), _known(context.deadline):
            yield
    except asyncio.CancelledError:
        if not reasons or task.cancelling() - 1 > earlier:  # someone else's, or theirs as well
            raise
    finally:
        if reasons:
            task.uncancel()
    if reasons:  # also if the work inside took no notice
        raise _stopped(reasons[0], context)


@contextmanager
def _listening(
    context: RequestContext, task: asyncio.Task[object], reasons: list[Reason]
) -> Iterator[None]:
    """Cancel `task` once, if the token fires or the time is up meanwhile, and add the reason."""
    loop = asyncio.get_running_loop()
    finished = False

    def stop(reason: Reason) -> None:
        if not reasons and not finished:
            reasons.append(reason)
            task.cancel()

    def fired() -> None:
        with suppress(RuntimeError):  # the loop is closed, so the search is over
            loop.call_soon_threadsafe(stop, SearchCancelled)

    forget = context.cancellation.listen(fired) if context.cancellation else None
    remaining = context.remaining()
    timer = None if remaining is None else loop.call_later(remaining, stop, DeadlineExceeded)
    try:
        yield
    finally:
        finished = True
        if forget:
            forget()
        if timer:
            timer.cancel()


@contextmanager
def _known(deadline: float | None) -> Iterator[None]:
    """Have `time_left` tell how long there is until `deadline`, or an earlier one around it."""
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
            f"the search took longer than its {context.timeout:g} s (trace {context.trace_id})"
        )
    return SearchCancelled(f"the search was cancelled by its token (trace {context.trace_id})")
