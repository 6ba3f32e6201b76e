"""Request contexts: cancellation, deadline and trace id of a search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from lagotto.errors import ConfigError, DeadlineExceeded, SearchCancelled

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class CancellationToken:
    """Cancels the searches that use it, from any thread; once fired it stays fired."""

    def __init__(self) -> None:
        # Without a lock, since a signal handler may fire: the one that pops a listener calls it.
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
    token, remaining = context.cancellation, context.remaining()
    if token and token.fired:
        raise _stopped(context, by_token=True)
    if remaining == 0:
        raise _stopped(context)
    if token is None and remaining is None:
        yield
        return
    loop, scope, by_token = asyncio.get_running_loop(), asyncio.timeout(remaining), False

    def expire() -> None:
        nonlocal by_token
        with suppress(RuntimeError):  # the deadline has passed, or the search is over
            scope.reschedule(loop.time())
            by_token = True

    def fired() -> None:
        with suppress(RuntimeError):  # the loop is closed, so the search is over
            loop.call_soon_threadsafe(expire)

    deadlines = (context.deadline, _deadline.get())  # an outer scope may have an earlier one
    former = _deadline.set(min((each for each in deadlines if each is not None), default=None))
    unsubscribe = token.listen(fired) if token else None
    try:
        async with scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        _deadline.reset(former)
        if unsubscribe:
            unsubscribe()
    if scope.expired():  # even if the body ignored the cancellation
        raise _stopped(context, by_token=by_token)


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _stopped(
    context: RequestContext, *, by_token: bool = False
) -> SearchCancelled | DeadlineExceeded:
    trace = f"(trace {context.trace_id})"
    if by_token:
        return SearchCancelled(f"the search was cancelled by its cancellation token {trace}")
    return DeadlineExceeded(f"the search exceeded its timeout of {context.timeout:g} s {trace}")
