"""`context`: cited evidence for a prompt."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lagotto.cli.connect import open_for_a_question
from lagotto.cli.options import AsJson, BaseOptions, SearchOptions
from lagotto.cli.output import print_json, printable, say, warn
from lagotto.cli.query import Query, arguments
from lagotto.display import counted

Format = Literal["plain", "markdown", "xml"]


def context(
    query: Query,
    base: BaseOptions,
    how: SearchOptions,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="Token budget, markup included. [default: 12000]"),
    ] = None,
    format: Annotated[  # noqa: A002
        Format, typer.Option("--format", help="Format of the context.")
    ] = "plain",
    counter: Annotated[
        str | None,
        typer.Option(
            "--counter", metavar="NAME", help="Token counter, such as tiktoken:o200k_base."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a cited context for a prompt. The passages and their markup fit a token budget."""
    given = arguments(how)
    with open_for_a_question(base) as kb:
        pack = kb.context(query, max_tokens=max_tokens, format=format, counter=counter, **given)
    if as_json:
        print_json(pack.model_dump(mode="json"))
        return
    warn(pack.trace.notes)
    if pack.context_pack:
        typer.echo(printable(pack.context_pack))
    for citation in pack.citations:
        say(f"[{citation.marker}] {citation.key}")
    say(f"{counted(pack.tokens, 'token')}, {counted(len(pack.citations), 'citation')}")
