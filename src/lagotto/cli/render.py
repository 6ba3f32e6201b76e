"""Rendering of hits, documents and tables: coloured on a terminal, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lagotto.cli.output import PlainConsole, document_name, one_line, printable
from lagotto.results import CandidateItem, EvidenceChunk, RetrievalResult, format_citation
from lagotto.retrieval.documents import snippet

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

AnyConsole: TypeAlias = "Console | PlainConsole"

Part = tuple[str, str]
"""A text and its style."""


def print_hit(
    console: AnyConsole, hit: RetrievalResult, *, query: str, explain: bool = False
) -> None:
    """Print rank, score and citation, the scores of the legs, and the part that matches best."""
    _print_heading(console, hit.rank, hit.score, hit.citation)
    legs = hit.breakdown.legs().items()
    scores = [_leg(leg, score.score, score.rank) for leg, score in legs if score.weight]
    name = document_name(hit.document_source, hit.document_id)
    print_indented(console, ("  ".join((*scores, name)), "dim"))
    if explain:
        for line in hit.explain().splitlines()[1:]:
            print_indented(console, (printable(line.strip()), "dim"))
    print_indented(console, *highlighted(hit.content, query, language=hit.language))
    console.print()


def print_document(
    console: AnyConsole,
    item: CandidateItem,
    passages: Sequence[EvidenceChunk],
    *,
    number: int,
    query: str,
) -> None:
    """Print a document of a bundle, and below it the passages that support it."""
    name = item.title or item.source or item.item_id
    _print_heading(console, number, item.score, name)
    ranks = {"semantic": (item.score_vec, item.rank_vec), "text": (item.score_text, item.rank_text)}
    scores = [_leg(leg, score, rank) for leg, (score, rank) in ranks.items() if score is not None]
    line = "  ".join((*scores, document_name(item.source, item.item_id)))
    print_indented(console, (line, "dim"))
    for passage in passages:
        location = format_citation("", passage.location).removeprefix("Doc: ").strip(" |")
        line = f"{passage.score:.2f}  {one_line(location)}".rstrip()
        print_indented(console, (line, "cyan"))
        print_indented(console, *highlighted(passage.text, query, language=item.language))
    if not passages and item.snippet:
        print_indented(console, (printable(item.snippet), ""))
    console.print()


def highlighted(text: str, query: str, *, language: str | None = None) -> Iterator[Part]:
    """The part of `text` that matches `query` best, with the matching words marked."""
    best = snippet(printable(text), query, language=language)
    end = 0
    for span in best.highlights:
        yield best.text[end : span.start], ""
        yield best.text[span.start : span.end], "bold yellow"
        end = span.end
    yield best.text[end:], ""


def print_parts(console: AnyConsole, *parts: Part, indent: int = 0) -> None:
    if isinstance(console, PlainConsole):
        console.print(" " * indent + "".join(text for text, _ in parts))
        return
    from rich.padding import Padding
    from rich.text import Text

    text = Text.assemble(*parts)
    console.print(Padding(text, (0, 0, 0, indent)) if indent else text)


def print_indented(console: AnyConsole, *parts: Part) -> None:
    """Parts a little to the right, in as many lines as it takes on a terminal, else in one."""
    print_parts(console, *parts, indent=4)


def _print_heading(console: AnyConsole, number: int, score: float, name: str) -> None:
    rank, points = (f"{number:>2}. ", "bold"), (f"{score:.2f}", "cyan")
    print_parts(console, rank, points, ("  ", ""), (one_line(name), "bold"))


def print_table(
    console: AnyConsole,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    whole: str | None = None,
    wrapped: str | None = None,
) -> None:
    """Columns; on a terminal they are cut to fit, the one called `whole` last of all.

    The one called `wrapped` takes several lines instead.
    """
    if isinstance(console, PlainConsole):
        from rich.cells import cell_len

        lines = [columns, *rows]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = zip(line, widths, strict=True)
            padded = "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells)
            console.print(padded.rstrip())
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(_cell(column, style="bold"), no_wrap=column == whole)
    for row in rows:
        named = zip(columns, row, strict=True)
        table.add_row(*(text if name == wrapped else _cell(text) for name, text in named))
    console.print(table)


def _cell(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def print_fields(console: AnyConsole, fields: Mapping[str, str]) -> None:
    """Names and values, one pair a line; empty ones are left out."""
    width = max(map(len, fields)) + 2
    for name, value in fields.items():
        if value:
            print_parts(console, (f"{name + ':':<{width}}", "dim"), (value, ""))


def _leg(name: str, score: float, rank: int | None) -> str:
    return f"{name} {score:.2f}" + (f" (#{rank})" if rank else "")
