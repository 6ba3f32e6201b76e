"""Rendering of hits, documents and tables: coloured on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lagotto.cli.output import one_line, printable
from lagotto.results import CandidateItem, EvidenceChunk, RetrievalResult, format_citation
from lagotto.retrieval.snippets import snippet

INDENT = 4


def print_hit(
    console: Console,
    hit: RetrievalResult,
    *,
    query: str,
    explain: bool = False,
) -> None:
    """Print rank, score and citation, the scores of the legs, and the part that matches best."""
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
    print_indented(console, highlighted(hit.content, query, language=hit.language))
    console.print()


def print_document(
    console: Console,
    item: CandidateItem,
    passages: Sequence[EvidenceChunk],
    *,
    number: int,
    query: str,
) -> None:
    """Print a document of a bundle, and below it the passages that support it."""
    name = item.title or item.source or item.item_id
    heading = Text.assemble(
        (f"{number:>2}. ", "bold"), (f"{item.score:.2f}", "cyan"), "  ", (one_line(name), "bold")
    )
    console.print(heading)
    ranks = {"semantic": (item.score_vec, item.rank_vec), "text": (item.score_text, item.rank_text)}
    scores = [_leg(leg, score, rank) for leg, (score, rank) in ranks.items() if score is not None]
    line = "  ".join((*scores, f"document {one_line(item.item_id)}"))
    print_indented(console, Text(line, style="dim"))
    for passage in passages:
        location = format_citation("", passage.location).removeprefix("Doc: ").strip(" |")
        said = f"{passage.score:.2f}  {one_line(location)}".rstrip()
        print_indented(console, Text(said, style="cyan"))
        print_indented(console, highlighted(passage.text, query, language=item.language))
    if not passages and item.snippet:
        print_indented(console, Text(printable(item.snippet)))
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
    legs = hit.breakdown.legs().items()
    parts = [_leg(leg, said.score, said.rank) for leg, said in legs if said.weight]
    return "  ".join((*parts, f"document {one_line(hit.document_id)}"))


def _leg(name: str, score: float, rank: int | None) -> str:
    return f"{name} {score:.2f}" + (f" (#{rank})" if rank else "")
