"""What searches ask for again and again, kept until something is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

MOST = 64


class Remembered:
    """Answers that hold for one state of the base; older ones go when there are many."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    async def get(self, name: Hashable, state: int, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a question in a state, asked for once."""
        place = (name, state)
        if place not in self._answers:
            answer = await ask()
            while len(self._answers) >= MOST:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[place] = answer
        return self._answers[place]
