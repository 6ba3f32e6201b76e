"""What searches ask for again and again, kept until something is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

MOST = 64


class StateCache:
    """Answers that hold for one state of the base; the oldest go when there are many.

    A state is known by the random token of its last commit, so that a base restored from a backup,
    or a standby that took over, is never mistaken for the one that the answers came from.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    async def get(self, name: Hashable, token: int, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a question in a state, asked for once."""
        key = (name, token)
        if key not in self._answers:
            answer = await ask()
            while len(self._answers) >= MOST:
                self._answers.pop(next(iter(self._answers)), None)
            self._answers[key] = answer
        return self._answers[key]
