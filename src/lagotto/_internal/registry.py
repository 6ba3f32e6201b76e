"""Names: registries of implementations, lazily imported exports, and the nearest known name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from urllib.parse import parse_qsl

from lagotto.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from pydantic import BaseModel


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

    def is_installed(self, name: str) -> bool:
        """Whether `get` gives one of another package, which this process has not named yet."""
        known = name in self._registered or name in self._builtin
        return not known and bool(self._installed().select(name=name))

    def names(self) -> list[str]:
        installed = (entry.name for entry in self._installed())
        return sorted({*self._builtin, *self._registered, *installed})

    def get(self, name: str) -> T:
        """Return the implementation called `name`; UnknownNameError lists the available names."""
        if name in self._registered:
            return self._registered[name]
        if name in self._builtin:
            module, attribute = self._builtin[name].split(":")
            target = getattr(import_module(module), attribute)
            return cast("T", target[name] if isinstance(target, Mapping) else target)
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


def exports(
    package: str, later: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package, called at the end of its module.

    It exports what it has imported by then, and the names in `later`, by the module of Lagotto that
    defines them: these are imported when they are first used.
    """
    module = sys.modules[package]
    homes = {name: home for home, names in (later or {}).items() for name in names.split()}
    public = {name for name in vars(module) if not name.startswith("_")}
    public -= {name for name in public if isinstance(vars(module)[name], ModuleType)}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"lagotto.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    names = sorted(public - {"TYPE_CHECKING", "exports"} | homes.keys())
    return names, get, lambda: sorted({*vars(module), *homes})


Settings = TypeVar("Settings", bound="BaseModel")


def parse_settings(
    kind: str, spec: str, settings: type[Settings], **fixed: object
) -> tuple[str, Settings]:
    """The model and the settings of `MODEL?name=value&...`; ConfigError for unknown ones.

    `fixed` are values of `settings` that no name gives.
    """
    from pydantic import ValidationError

    model, _, options = spec.partition("?")
    try:
        values = {**dict(parse_qsl(options, keep_blank_values=True)), **fixed}
        return model, settings.model_validate(values)
    except ValidationError as exc:
        first = exc.errors()[0]
        names = ", ".join(sorted(settings.model_fields.keys() - fixed))
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ConfigError(f"{kind}:{spec}: {problem}; available settings: {names}") from exc


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no known name is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
