"""What searches ask for again and again, kept until something is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

MOST = 64


@dataclass(frozen=True, slots=True)
class State:
    """A number that counts the changes of a base, as a server knows it since it was started.

    A server that is put back to an earlier state, or replaced by one that was behind, counts to
    the same number with other changes.
    """

    server_started: str
    number: int


class StateCache:
    """Answers that hold for one state of the base; older ones go when there are many."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    async def get(self, name: Hashable, state: State, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a question in a state, asked for once."""
        place = (name, state)
        if place not in self._answers:
            answer = await ask()
            while len(self._answers) >= MOST:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[place] = answer
        return self._answers[place]
