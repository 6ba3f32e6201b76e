"""How things look on a screen; without colours, boxes and line breaks where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lagotto.cli.output import one_line, printable
from lagotto.results import RetrievalResult
from lagotto.retrieval.snippets import snippet

INDENT = 4


def print_hit(
    console: Console,
    hit: RetrievalResult,
    *,
    query: str,
    language: str | None = None,
    explain: bool = False,
) -> None:
    """Rank, score and citation, what each leg said, and the part that matches best."""
    heading = Text.assemble(
        (f"{hit.rank:>2}. ", "bold"),
        (f"{hit.score:.2f}", "cyan"),
        "  ",
        (one_line(hit.citation), "bold"),
    )
    console.print(heading)
    print_indented(console, Text(_scores(hit), style="dim"))
    if explain:
        for line in hit.explain().splitlines()[1:]:
            print_indented(console, Text(printable(line.strip()), style="dim"))
    print_indented(console, highlighted(hit.content, query, language=language))
    console.print()


def highlighted(text: str, query: str, *, language: str | None = None) -> Text:
    """The part of `text` that matches `query` best, with the matching words marked."""
    found = snippet(printable(text), query, language=language)
    shown = Text(found.text)
    for span in found.highlights:
        shown.stylize("bold yellow", span.start, span.end)
    return shown


def print_indented(console: Console, text: Text) -> None:
    """`text` a little to the right, in as many lines as it takes on a terminal, else in one."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, INDENT)))
    else:
        console.print(Text(" " * INDENT).append_text(text))


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    whole: str | None = None,
) -> None:
    """Columns; on a terminal they are cut to fit, the one called `whole` last of all."""
    if not console.is_terminal:
        _print_aligned(console, [columns, *rows])
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(_cell(column, style="bold"), no_wrap=column == whole)
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(table)


def _cell(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _print_aligned(console: Console, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells)
        console.print(line.rstrip())


def print_fields(console: Console, fields: Mapping[str, str]) -> None:
    """Names and values, one pair a line; empty ones are left out."""
    width = max(map(len, fields)) + 2
    for name, value in fields.items():
        if value:
            console.print(Text.assemble((f"{name + ':':<{width}}", "dim"), value))


def _scores(hit: RetrievalResult) -> str:
    parts = []
    for leg, said in hit.breakdown.legs().items():
        rank = f" (#{said.rank})" if said.rank else ""
        parts.append(f"{leg} {said.score:.2f}{rank}")
    return "  ".join((*parts, f"document {one_line(hit.document_id)}"))
