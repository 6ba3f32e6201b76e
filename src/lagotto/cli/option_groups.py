"""Groups of options: a command takes a dataclass, the command line shows one option per field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

_KIND = Parameter.KEYWORD_ONLY


def flatten_groups(command: Callable[..., None]) -> Callable[..., None]:
    """`command` for Typer: each parameter that is a dataclass is replaced by its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            members = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**members)
        command(**values)

    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _members(groups[name])
        else:
            parameters.append(parameter.replace(kind=_KIND, annotation=hints[name]))
    setattr(call, "__signature__", Signature(parameters))  # noqa: B010  (unknown to type checkers)
    call.__annotations__ = {item.name: item.annotation for item in parameters}
    return call


def _members(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, _KIND, default=_default(field), annotation=hints[field.name])
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default
