"""Who calls the tools: the base that it sees, and how its calls are admitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from lagotto.base.protocol import BaseVerbs
from lagotto.errors import DeadlineExceeded, LagottoError
from lagotto.request_context import RequestContext

TIMEOUT = 60.0
"""Seconds for a call."""


@asynccontextmanager
async def until_timeout() -> AsyncIterator[None]:
    """Work inside, at once, until the deadline."""
    try:
        async with asyncio.timeout(TIMEOUT):
            yield
    except TimeoutError:
        raise DeadlineExceeded(f"the call took longer than {TIMEOUT:g} s") from None


def own_context() -> RequestContext:
    """The context of a search with a deadline."""
    return RequestContext(timeout=TIMEOUT)


def message_of(error: Exception) -> str | None:
    """What an agent may know of an error."""
    return str(error) if isinstance(error, LagottoError) else None


@dataclass(frozen=True, slots=True)
class Agent:
    """A caller of the tools, by default one with a base of its own.

    `base` shows what it may see and nothing else. `writes` is whether the tools that change the
    base are there; a base that is not its own checks that as well. A call is worked on inside
    `admission`, which may have to wait for others, and has a deadline. `message` is what it may
    know of an error, None for one that is not foreseen.
    """

    base: BaseVerbs
    writes: bool = False
    context: Callable[[], RequestContext] = own_context
    admission: Callable[[], AbstractAsyncContextManager[None]] = until_timeout
    message: Callable[[Exception], str | None] = message_of
