"""Names to implementations: one table per family, open to other packages through entry points.

A name may carry parameters behind a colon: `recursive:256/32`, `openai:text-embedding-3-small`.
Implementations are given as `"module:attribute"` and imported when first asked for, so listing
a heavy one costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from lagotto.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """The implementations of one family, by name.

    `family` is the word used in messages; `group` the entry-point group in which other packages
    register theirs. Built-in names win over entry points, names given to `register` over both.
    """

    def __init__(self, family: str, *, group: str, builtin: Mapping[str, str]) -> None:
        self.family = family
        self.group = group
        self._builtin = dict(builtin)
        self._registered: dict[str, T] = {}

    def register(self, name: str, implementation: T) -> None:
        """Add an implementation at run time, or replace the one of that name."""
        self._registered[name] = implementation

    def is_builtin(self, name: str) -> bool:
        """Whether `get` gives the implementation that comes with Lagotto."""
        return name in self._builtin and name not in self._registered

    def names(self) -> list[str]:
        """All names that `get` knows."""
        installed = (entry.name for entry in entry_points(group=self.group))
        return sorted({*self._builtin, *self._registered, *installed})

    def get(self, name: str) -> T:
        """The implementation called `name`; UnknownNameError lists the ones there are."""
        if name in self._registered:
            return self._registered[name]
        if name in self._builtin:
            module, attribute = self._builtin[name].split(":")
            return cast("T", getattr(import_module(module), attribute))
        for entry in entry_points(group=self.group, name=name):
            return cast("T", entry.load())
        raise UnknownNameError(
            f"no {self.family} is called {name!r}; there are: {', '.join(self.names())}"
        )
