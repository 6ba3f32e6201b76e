"""Small JSON values that a store keeps besides documents: judgements, a server's keys and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

JUDGEMENT = "judgement"
"""The kind of judgements: unlike keys and tasks, they are copied with the documents of a base."""


class KeyedValue(NamedTuple):
    """A value with its name and its version, which counts the times it was written, from 1."""

    name: str
    version: int
    value: dict[str, Any]


class KeyedValues(Protocol):
    """Values by kind and name, each with some bytes beside it if wanted.

    A write is durable and seen by every process as soon as `put` returns. `expected` makes it
    conditional, so that of several processes that change a value at once one succeeds.
    """

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        """The value, None if there is none."""
        ...

    async def data(self, kind: str, name: str) -> bytes | None:
        """The bytes beside a value, None if there are none."""
        ...

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        """The values of a kind with names greater than `after`, in the order of their names."""
        ...

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        """Store a value; False if its version is not the expected one, 0 for a new value.

        Without `data`, the bytes beside it stay as they are.
        """
        ...

    async def remove(self, kind: str, name: str) -> bool:
        """Remove a value and its bytes; whether there was one."""
        ...


class MemoryKeyedValues:
    """Keyed values in a dictionary."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], tuple[KeyedValue, bytes | None]] = {}

    async def get(self, kind: str, name: str) -> KeyedValue | None:
        found = self._values.get((kind, name))
        return found[0] if found else None

    async def data(self, kind: str, name: str) -> bytes | None:
        found = self._values.get((kind, name))
        return found[1] if found else None

    async def items(
        self, kind: str, *, after: str = "", limit: int | None = None
    ) -> list[KeyedValue]:
        found = [
            value
            for (of_kind, name), (value, _) in sorted(self._values.items())
            if of_kind == kind and name > after
        ]
        return found[:limit]

    async def put(
        self,
        kind: str,
        name: str,
        value: Mapping[str, Any],
        *,
        data: bytes | None = None,
        expected: int | None = None,
    ) -> bool:
        former, kept = self._values.get((kind, name), (KeyedValue(name, 0, {}), None))
        if expected not in (None, former.version):
            return False
        stored = KeyedValue(name, former.version + 1, dict(value))
        self._values[kind, name] = (stored, kept if data is None else data)
        return True

    async def remove(self, kind: str, name: str) -> bool:
        return self._values.pop((kind, name), None) is not None
