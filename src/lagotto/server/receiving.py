"""Reading requests: bodies of limited size in limited time, and callers that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagotto.server.problems import Problem

CLOSE = {"Connection": "close"}
"""The rest of a body that is not read would be taken for the next request."""


def limited(http: HttpRequest, *, most: int, timeout: float) -> HttpRequest:
    """The request, with problems for a body that is too large or comes too slowly.

    Each part of the body has to arrive within `timeout` seconds, and a whole second's worth of
    waiting is granted for each 10 kB, so that one byte at a time is too slow as well.
    """
    declared = http.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    receive = http.receive
    received = 0
    started = asyncio.get_running_loop().time()

    async def next_part() -> Message:
        nonlocal received
        last = started + timeout + received / 10_000
        try:
            async with asyncio.timeout_at(min(last, asyncio.get_running_loop().time() + timeout)):
                message = await receive()
        except TimeoutError:
            raise Problem(
                "RequestTimeout",
                f"only {received} bytes of the body came in {timeout:g} s; send it faster",
                headers=CLOSE,
            ) from None
        received += len(message.get("body", b""))
        if received > most:
            raise _too_large(most)
        return message

    return HttpRequest(http.scope, next_part)


def _too_large(most: int) -> Problem:
    detail = f"the body is larger than {most:,} bytes, the most that this server accepts here"
    return Problem("ContentTooLarge", detail, headers=CLOSE)


class CancelOnDisconnect:
    """Cancels the work on a request when its client disconnects.

    Pure ASGI. Once the body is complete, nobody but this waits for messages, and the application
    is told of the disconnect here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        connection = _Connection(receive)
        working = asyncio.ensure_future(self.app(scope, connection.receive, send))
        watching = asyncio.create_task(connection.watch(working.cancel))
        try:
            await asyncio.wait([working])
            with suppress(asyncio.CancelledError):
                await working
        finally:
            for task in (watching, working):
                task.cancel()
            await asyncio.wait([watching, working])


class _Connection:
    """The messages of one request."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        """The next part of the body, or the disconnect."""
        if self._complete.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._complete.set()
        return message

    async def watch(self, cancel: Callable[[], object]) -> None:
        """Call `cancel` when the client is gone."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        cancel()
