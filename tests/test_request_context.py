from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from lagotto.errors import ConfigError, DeadlineExceeded, SearchCancelled
from lagotto.request_context import CancellationToken, RequestContext, cancel_scope, time_left

FOREVER = 3600.0


Work = Callable[[], Awaitable[object]]


async def wait() -> None:
    await asyncio.sleep(FOREVER)


async def search(context: RequestContext, work: Work = wait) -> None:
    async with cancel_scope(context):
        await work()


def until_fired(token: CancellationToken, work: Work = wait) -> Work:
    """Work during which the token fires."""

    async def working() -> None:
        asyncio.get_running_loop().call_soon(token.fire)
        await work()

    return working


async def fail_on_the_way_out() -> None:
    try:
        await wait()
    finally:
        raise LookupError


def this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


class TestToken:
    def test_listeners_are_called_once(self) -> None:
        token = CancellationToken()
        calls: list[str] = []
        for name in "ab":
            token.listen(lambda name=name: calls.append(name))  # type: ignore[misc]
        assert not token.fired
        token.fire()
        token.fire()
        assert token.fired
        assert sorted(calls) == ["a", "b"]

    def test_a_listener_that_comes_too_late_is_called_at_once(self) -> None:
        token = CancellationToken()
        token.fire()
        calls: list[str] = []
        forget = token.listen(lambda: calls.append("late"))
        assert calls == ["late"]
        forget()

    def test_who_stopped_listening_is_not_called(self) -> None:
        token = CancellationToken()
        calls: list[str] = []
        forget = token.listen(lambda: calls.append("gone"))
        token.listen(lambda: calls.append("here"))
        forget()
        forget()
        token.fire()
        assert calls == ["here"]

    def test_fired_by_a_listener_again(self) -> None:
        token = CancellationToken()
        calls: list[str] = []
        token.listen(lambda: calls.append("other"))
        token.listen(token.fire)
        token.fire()
        assert calls == ["other"]

    def test_many_threads(self) -> None:
        token = CancellationToken()
        calls: list[int] = []
        start = threading.Barrier(5)

        def listen(first: int) -> None:
            start.wait()
            for number in range(first, first + 200):
                token.listen(lambda number=number: calls.append(number))  # type: ignore[misc]

        def fire() -> None:
            start.wait()
            token.fire()

        threads = [threading.Thread(target=listen, args=(200 * n,)) for n in range(3)]
        threads += [threading.Thread(target=fire) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(calls) == list(range(600))


class TestContext:
    def test_each_has_a_trace_id(self) -> None:
        assert RequestContext().trace_id != RequestContext().trace_id
        assert RequestContext(trace_id="mine").trace_id == "mine"

    def test_what_remains(self) -> None:
        assert RequestContext().remaining() is None
        remaining = RequestContext(timeout=50).remaining()
        assert remaining is not None
        assert 0 < remaining <= 50
        assert RequestContext(timeout=5, started=time.monotonic() - 6).remaining() == 0

    @pytest.mark.parametrize("timeout", [0, -1.5, math.nan])
    def test_no_time_at_all(self, timeout: float) -> None:
        with pytest.raises(ConfigError, match=f"timeout is {timeout}; it must be a number"):
            RequestContext(timeout=timeout)


class TestTimeLeft:
    async def test_parts_of_a_search_know_it(self) -> None:
        async def part() -> float | None:
            return time_left()

        assert time_left() is None
        async with cancel_scope(RequestContext(timeout=50)):
            for left in (time_left(), *await asyncio.gather(part(), part())):
                assert left is not None
                assert 40 < left <= 50
        assert time_left() is None

    async def test_the_nearest_deadline_counts(self) -> None:
        async with cancel_scope(RequestContext(timeout=50)):
            for inner in (None, 100.0):
                async with cancel_scope(RequestContext(timeout=inner)):
                    assert 40 < (time_left() or 0) <= 50
            async with cancel_scope(RequestContext(timeout=20)):
                assert 10 < (time_left() or 0) <= 20
            assert 40 < (time_left() or 0) <= 50

    async def test_searches_side_by_side_have_their_own(self) -> None:
        async def search(seconds: float | None) -> float | None:
            async with cancel_scope(RequestContext(timeout=seconds)):
                await asyncio.sleep(0)
                return time_left()

        short, none, long = await asyncio.gather(search(20), search(None), search(50))
        assert short is not None
        assert long is not None
        assert short <= 20 < long
        assert none is None


class TestStopped:
    async def test_by_its_token(self) -> None:
        token = CancellationToken()
        with pytest.raises(SearchCancelled, match="cancelled by its cancellation token"):
            await search(RequestContext(cancellation=token), until_fired(token))
        assert this_task().cancelling() == 0

    async def test_by_its_token_from_another_thread(self) -> None:
        token = CancellationToken()
        thread = threading.Thread(target=token.fire)

        async def work() -> None:
            thread.start()
            await wait()

        with pytest.raises(SearchCancelled):
            await search(RequestContext(cancellation=token), work)
        thread.join()

    async def test_by_its_deadline(self) -> None:
        with pytest.raises(DeadlineExceeded, match=r"exceeded its timeout of 0\.01 s"):
            await search(RequestContext(timeout=0.01))
        assert this_task().cancelling() == 0

    async def test_before_it_started(self) -> None:
        token = CancellationToken()
        token.fire()
        began: list[str] = []

        async def work() -> None:
            began.append("work")

        with pytest.raises(SearchCancelled):
            await search(RequestContext(cancellation=token), work)
        with pytest.raises(DeadlineExceeded):
            await search(RequestContext(timeout=1, started=time.monotonic() - 2), work)
        assert began == []

    async def test_several_searches_with_one_token(self) -> None:
        token = CancellationToken()
        tasks = [asyncio.create_task(search(RequestContext(cancellation=token))) for _ in range(3)]
        await asyncio.sleep(0)
        token.fire()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [SearchCancelled] * 3

    async def test_the_work_inside_can_clean_up(self) -> None:
        token = CancellationToken()
        steps: list[str] = []

        async def work() -> None:
            try:
                await wait()
            finally:
                await asyncio.sleep(0)
                steps.append("cleaned up")

        with pytest.raises(SearchCancelled):
            await search(RequestContext(cancellation=token), until_fired(token, work))
        assert steps == ["cleaned up"]

    async def test_work_that_takes_no_notice(self) -> None:
        token = CancellationToken()

        async def work() -> None:
            with suppress(asyncio.CancelledError):
                await wait()

        with pytest.raises(SearchCancelled):
            await search(RequestContext(cancellation=token), until_fired(token, work))
        assert this_task().cancelling() == 0

    async def test_work_that_fails_on_the_way_out(self) -> None:
        token = CancellationToken()
        work = until_fired(token, fail_on_the_way_out)
        with pytest.raises(LookupError):
            await search(RequestContext(cancellation=token), work)
        assert this_task().cancelling() == 0


class TestNotStopped:
    async def test_work_that_ends_in_time(self) -> None:
        token = CancellationToken()
        async with cancel_scope(RequestContext(cancellation=token, timeout=FOREVER)):
            await asyncio.sleep(0)
        token.fire()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert this_task().cancelling() == 0

    async def test_fired_as_the_last_thing_inside(self) -> None:
        token = CancellationToken()
        async with cancel_scope(RequestContext(cancellation=token)):
            token.fire()
        await asyncio.sleep(0)
        assert this_task().cancelling() == 0

    async def test_other_errors_stay_what_they_are(self) -> None:
        async def work() -> None:
            raise LookupError

        with pytest.raises(LookupError):
            await search(RequestContext(cancellation=CancellationToken(), timeout=FOREVER), work)

    async def test_nothing_listens_afterwards(self) -> None:
        calls: list[object] = []

        class Watched(CancellationToken):
            def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
                return super().listen(lambda: calls.append(listener()))

        token = Watched()
        async with cancel_scope(RequestContext(cancellation=token)):
            pass
        token.fire()
        assert calls == []

    def test_fired_when_the_loop_is_closed(self) -> None:
        """A thread may be about to call a listener while the search and its loop end."""
        listeners: list[Callable[[], object]] = []

        class Slow(CancellationToken):
            def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
                listeners.append(listener)
                return super().listen(listener)

        asyncio.run(search(RequestContext(cancellation=Slow()), partial(asyncio.sleep, 0)))
        (listener,) = listeners
        listener()


class TestFromOutside:
    async def test_a_cancellation_stays_one(self) -> None:
        context = RequestContext(cancellation=CancellationToken(), timeout=FOREVER)
        task = asyncio.create_task(search(context))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    async def test_a_timeout_stays_one(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(search(RequestContext(timeout=FOREVER)), 0.01)

        async def work() -> None:
            async with asyncio.timeout(0.01):
                await search(RequestContext(timeout=FOREVER))

        with pytest.raises(TimeoutError):
            await work()
        assert this_task().cancelling() == 0

    async def test_a_timeout_after_work_that_failed_on_the_way_out(self) -> None:
        token = CancellationToken()
        failing = until_fired(token, fail_on_the_way_out)

        async def work() -> None:
            async with asyncio.timeout(0.01):
                with suppress(LookupError):
                    await search(RequestContext(cancellation=token), failing)
                await wait()

        with pytest.raises(TimeoutError):
            await work()

    async def test_the_token_inside_a_timeout(self) -> None:
        token = CancellationToken()

        async def work() -> None:
            async with asyncio.timeout(FOREVER):
                await search(RequestContext(cancellation=token), until_fired(token))

        with pytest.raises(SearchCancelled):
            await work()

    @pytest.mark.parametrize("turn", [1, -1])
    async def test_both_at_once_is_a_cancellation(self, turn: int) -> None:
        token = CancellationToken()
        task = asyncio.create_task(search(RequestContext(cancellation=token)))
        await asyncio.sleep(0)
        for act in (token.fire, task.cancel)[::turn]:
            act()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    async def test_a_search_while_a_cancelled_task_cleans_up(self) -> None:
        token = CancellationToken()
        outcomes: list[type[BaseException]] = []

        async def work() -> None:
            try:
                await wait()
            finally:
                try:
                    await search(RequestContext(cancellation=token), until_fired(token))
                except SearchCancelled as exc:
                    outcomes.append(type(exc))

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert outcomes == [SearchCancelled]


class TestNested:
    async def test_the_same_context_twice(self) -> None:
        token = CancellationToken()
        context = RequestContext(cancellation=token)
        with pytest.raises(SearchCancelled):
            await search(context, lambda: search(context, until_fired(token)))
        assert this_task().cancelling() == 0

    async def test_the_same_deadline_twice(self) -> None:
        context = RequestContext(timeout=0.01)
        with pytest.raises(DeadlineExceeded):
            await search(context, lambda: search(context))
        assert this_task().cancelling() == 0

    async def test_the_inner_one_stops_the_outer_goes_on(self) -> None:
        async with cancel_scope(RequestContext(timeout=FOREVER)):
            with pytest.raises(DeadlineExceeded, match=r"0\.01 s"):
                await search(RequestContext(timeout=0.01))
            await asyncio.sleep(0)

    async def test_the_outer_one_stops_both(self) -> None:
        token = CancellationToken()
        reached: list[str] = []

        async def work() -> None:
            await search(RequestContext(timeout=FOREVER), until_fired(token))
            reached.append("after the inner one")

        with pytest.raises(SearchCancelled):
            await search(RequestContext(cancellation=token), work)
        assert reached == []
        assert this_task().cancelling() == 0
