"""Registries: one table of implementations per family, open to other packages.

A name may have parameters after a colon: `recursive:256/32`, `openai:text-embedding-3-small`.
Built-in implementations are given as `"module:attribute"` and imported on first use, so listing
them is cheap. The attribute is the implementation, or a mapping with several of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from lagotto.errors import UnknownNameError
from lagotto.suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")


class Registry(Generic[T]):
    """The implementations of one family, by name.

    `family` is the word for messages; other packages register theirs in the entry-point group
    `group`. Names given to `register` take precedence over built-in names, and these over entry
    points.
    """

    def __init__(self, family: str, *, group: str, builtin: Mapping[str, str]) -> None:
        self.family = family
        self.group = group
        self._builtin = dict(builtin)
        self._registered: dict[str, T] = {}

    def register(self, name: str, implementation: T) -> None:
        """Add an implementation, or replace the one with that name."""
        self._registered[name] = implementation

    def is_builtin(self, name: str) -> bool:
        """Whether `get` gives the implementation that comes with Lagotto."""
        return name in self._builtin and name not in self._registered

    def names(self) -> list[str]:
        """All names, sorted."""
        installed = (entry.name for entry in self._installed())
        return sorted({*self._builtin, *self._registered, *installed})

    def get(self, name: str) -> T:
        """Return the implementation called `name`; UnknownNameError lists the available names."""
        if name in self._registered:
            return self._registered[name]
        if name in self._builtin:
            module, attribute = self._builtin[name].split(":")
            found = getattr(import_module(module), attribute)
            return cast("T", found[name] if isinstance(found, Mapping) else found)
        for entry in self._installed().select(name=name):
            return cast("T", entry.load())
        known = self.names()
        raise UnknownNameError(
            f'unknown {self.family} "{name}"; available: {", ".join(known)}'
            f"{did_you_mean(name, known)}"
        )

    def _installed(self) -> EntryPoints:
        from importlib.metadata import entry_points  # slow to import, and rarely needed

        return entry_points(group=self.group)
