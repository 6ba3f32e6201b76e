"""Output: results on stdout, messages and logs on stderr, nothing a terminal would obey."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


UNLISTED = {"text", "pages", "headings", "blocks"}
"""The long fields of a document, which lists and summaries leave out."""

_BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDIRECTIONAL}]")
"""What a terminal would obey: control characters, and marks that reorder the text around them."""


def print_json(value: object) -> None:
    """Print `value`, with records in it, as JSON on stdout, with control characters as escapes."""
    from pydantic_core import to_jsonable_python

    text = json.dumps(value, ensure_ascii=False, indent=2, default=to_jsonable_python)
    typer.echo(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def say(message: str) -> None:
    typer.echo(printable(message), err=True)


def warn(degraded: tuple[str, ...]) -> None:
    """Print what a base or a search had to do without, as warnings."""
    for reason in degraded:
        say(f"warning: {reason}")


class PlainConsole:
    """Prints plain long lines, without Rich, whose import takes longer than a search."""

    is_terminal = False

    def print(self, text: str = "", *, style: str = "") -> None:
        sys.stdout.write(f"{text}\n")


def stdout() -> Console | PlainConsole:
    """The console for results: colours and wrapped lines on a terminal, else plain long lines."""
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        return PlainConsole()
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """`text` without control characters, which a terminal would interpret."""
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str | None) -> str:
    return printable(" ".join((text or "").split()))


SHORT_ID = 8
"""Characters of an id that is a hash; `show` takes the beginning of one."""
_HASH = re.compile(r"[0-9a-f]{32}")


def from_here(source: str) -> str:
    """`source` relative to the current folder, if it is a path below it."""
    path, here = Path(source), Path.cwd()
    return str(path.relative_to(here)) if here in path.parents else source


def document_name(source: str, document_id: str) -> str:
    """The path of a document, if it has one, and its id, or the beginning of a hash."""
    short = document_id[:SHORT_ID] if _HASH.fullmatch(document_id) else document_id
    return "  ".join(filter(None, map(one_line, (from_here(source), short))))


class StderrHandler(logging.Handler):
    """Writes to what is stderr at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(self.format(record)), file=sys.stderr)


@contextmanager
def logging_to_stderr(verbose: int) -> Iterator[None]:
    """Show what is logged: for one `-v` what happens, for more details; without any, warnings."""
    if not verbose:
        yield
        return
    package, handler = logging.getLogger("lagotto"), StderrHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    before = package.level
    package.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    package.addHandler(handler)
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(before)
