"""Results as text for `print`, and as HTML for notebooks. Texts of documents are always escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

EXCERPT = 160
"""Characters of a passage that a line of a list shows."""

Row = tuple[str, str, str]
"""Score or marker, what is cited, and an excerpt or a key."""


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 document`, `1,200 documents`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def excerpt(text: str, *, most: int = EXCERPT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def as_text(
    rows: Iterable[Row], *, first: int = 1, notes: Sequence[str] = (), empty: str = ""
) -> str:
    """Two lines a row, from number `first`: score and what is cited, excerpt; then the notes."""
    lines = [
        line
        for number, (score, cited, shown) in enumerate(rows, first)
        for line in (f"{number:>2}. {score}  {cited}", f"    {shown}")
    ]
    return "\n".join([*(lines or [empty]), *(f"note: {note}" for note in notes)])


def as_html(columns: Sequence[str], rows: Iterable[Row], *, notes: Sequence[str] = ()) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    below = "".join(f"<p>note: {escape(note)}</p>" for note in notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
