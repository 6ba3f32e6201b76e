"""Results go to stdout, messages and progress to stderr."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_json(value: object) -> None:
    """`value` on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def say(message: str) -> None:
    """A message on stderr."""
    typer.echo(printable(message), err=True)


def warn(degraded: tuple[str, ...]) -> None:
    """Say what a base or a search had to do without."""
    for reason in degraded:
        say(f"warning: {reason}")


def stdout() -> Console:
    """A console for results: colours and line breaks on a terminal, plain long lines elsewhere."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    console.soft_wrap = not console.is_terminal
    return console


def printable(text: str) -> str:
    """`text` without control characters: a document must not give orders to a terminal."""
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str | None) -> str:
    """`text` for a table or a list of fields."""
    return printable(" ".join((text or "").split()))
