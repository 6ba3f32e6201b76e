"""The gate: who works, who waits, and who is rejected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lagotto.server.concurrency_limit import Gate
from lagotto.server.problems import Problem


class Requests:
    """Requests to a gate, by name; `order` is that in which they began to work."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._may_end: dict[str, asyncio.Event] = {}

    async def send(self, *names: str, wide: bool = False) -> None:
        """Send requests; the client is the first letter of the name."""
        for name in names:
            self._may_end[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._work(name, wide=wide))
            await settle()

    async def end(self, name: str) -> None:
        """End the work of a request."""
        self._may_end[name].set()
        await self._tasks[name]
        await settle()

    async def cancel(self, name: str) -> None:
        """The client of a request leaves."""
        self._tasks[name].cancel()
        await settle()

    def rejected(self) -> list[str]:
        """The requests that were rejected."""
        ended = {name: task for name, task in self._tasks.items() if task.done()}
        return [
            name
            for name, task in ended.items()
            if not task.cancelled() and isinstance(task.exception(), Problem)
        ]

    async def _work(self, name: str, *, wide: bool) -> None:
        async with self.gate.slot(name[0], wide=wide):
            self.order.append(name)
            await self._may_end[name].wait()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def requests(most: int, *, queue: int) -> AsyncIterator[Requests]:
    sent = Requests(Gate(most, queue=queue))
    yield sent
    await sent.close()
    assert (sent.gate.working, sent.gate.waiting) == (0, 0)


async def test_the_client_with_the_fewest_at_work_is_next() -> None:
    async with requests(2, queue=10) as sent:
        await sent.send("a1", "a2", "a3", "a4", "b1", "b2")
        assert sent.order == ["a1", "a2"]
        await sent.end("a1")
        assert sent.order[2:] == ["b1"]
        await sent.end("a2")
        assert sent.order[3:] == ["a3"]  # b has one at work, a has none
        await sent.end("b1")
        assert sent.order[4:] == ["b2"]


async def test_a_full_queue_rejects_the_latest_of_the_client_with_the_most_in_it() -> None:
    async with requests(1, queue=2) as sent:
        await sent.send("a1", "a2", "a3", "b1")
        assert sent.rejected() == ["a3"]
        await sent.send("a4")
        assert sent.rejected() == ["a3", "a4"]
        await sent.end("a1")
        assert sent.order == ["a1", "a2"]
        await sent.end("a2")
        assert sent.order == ["a1", "a2", "b1"]


async def test_wide_requests_leave_room_for_others() -> None:
    async with requests(16, queue=10) as sent:
        await sent.send("a1", "b1", "c1", wide=True)
        await sent.send("a2", "d1")
        assert sent.order == ["a1", "b1", "a2", "d1"]
        await sent.end("b1")
        assert sent.order[4:] == ["c1"]


async def test_a_client_that_leaves_gives_its_place_to_the_next() -> None:
    async with requests(1, queue=10) as sent:
        await sent.send("a1", "b1", "c1")
        await sent.cancel("b1")
        assert sent.gate.waiting == 1
        await sent.cancel("a1")
        assert sent.order == ["a1", "c1"]


async def test_a_queue_of_none_rejects_at_once() -> None:
    gate = Gate(1, queue=0)
    async with gate.slot("a"):
        with pytest.raises(Problem, match="1 requests are worked on and 0 wait; try again later"):
            async with gate.slot("b"):
                raise AssertionError("there is no place")
