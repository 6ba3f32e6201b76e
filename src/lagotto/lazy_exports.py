"""Packages whose names are imported on first use, so that a command loads only what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; a name is imported from its module, and kept.

    `homes` has the names by the module, relative to the package, that defines them.
    """
    modules = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
