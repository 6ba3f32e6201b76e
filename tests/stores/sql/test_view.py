"""What views wait for, and what they keep."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lagotto.errors import (
    IndexUnavailableError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from lagotto.indexes.updater import IndexUpdater
from lagotto.stores.sql import view


class Behind:
    """Attempts that fail until they are told to do without what an index lacks."""

    def __init__(self, *problems: StoreError | None, enough: int = 9) -> None:
        self.problems = list(problems)
        self.attempts: list[StoreError | None] = []
        self.enough = enough

    async def catch_up(self) -> StoreError | None:
        return self.problems.pop(0)

    async def attempt(self, gave_up: StoreError | None) -> StoreError | None:
        self.attempts.append(gave_up)
        if gave_up is None and len(self.attempts) < self.enough:
            raise view.IndexTooFarBehind
        return gave_up

    async def found(self) -> StoreError | None:
        updater: Any = SimpleNamespace(catch_up=self.catch_up)
        return await view.ViewFactory(updater, in_threads=False).until_indexed(self.attempt)


@pytest.mark.parametrize(
    "kind", [StoreBusyError, StoreFullError, StoreReadOnlyError, IndexUnavailableError]
)
async def test_a_search_does_without_what_can_t_be_indexed_now(kind: type[StoreError]) -> None:
    problem = kind("not now")
    behind = Behind(problem)
    assert await behind.found() is problem
    assert behind.attempts == [None, problem]


async def test_a_damaged_base_is_an_error() -> None:
    with pytest.raises(StoreDamagedError):
        await Behind(StoreDamagedError("torn")).found()


async def test_a_search_waits_for_the_indexes_twice() -> None:
    assert await Behind(None, None, enough=2).found() is None
    behind = Behind(None, None)
    assert isinstance(await behind.found(), StoreBusyError)
    assert [type(one) for one in behind.attempts] == [type(None), type(None), StoreBusyError]


def test_the_oldest_answers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST_ANSWERS", 2)
    views = view.ViewFactory(IndexUpdater(lambda: None), in_threads=False)
    assert [views.cached(name, 1, name.upper) for name in "aab"] == ["A", "A", "B"]
    assert ("a", 1) in views.answers
    views.cached("c", 1, lambda: "c")
    assert [(name, 1) in views.answers for name in "abc"] == [False, True, True]
    assert views.cached("b", 2, lambda: "new") == "new"
    assert views.cached("b", 1, lambda: "never") == "never"
