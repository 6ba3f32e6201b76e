"""`show`: a document, its chunks, or the text of a citation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.lookup import find_document
from lagotto.cli.options import AsJson, BaseOptions, InCollection
from lagotto.cli.output import UNLISTED, one_line, print_json, printable, stdout

if TYPE_CHECKING:
    from lagotto.context import CitedPassage
    from lagotto.documents import Chunk, Document

CITATION = re.compile(r"\A[^\s/#]++/[^\s/#]++#\d++-\d++(~[0-9a-f]{8})?")


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT", help="An id or its beginning, a path, a title, or a citation key."
        ),
    ],
    base: BaseOptions,
    collection: InCollection = None,
    chunks: Annotated[
        bool, typer.Option("--chunks", help="Show the chunks instead of the text.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a document or a cited passage. The fields of a document, and its text or chunks."""
    with open_existing(base) as kb:
        if CITATION.fullmatch(name):
            _print_passage(kb.resolve(name), as_json=as_json)
            return
        document = find_document(kb, name, collection=collection)
        pieces = kb.chunks(document.id, collection=document.collection) if chunks else []
    if as_json:
        print_json(_as_json(document, pieces if chunks else None))
    else:
        _print_document(document, pieces if chunks else None)


def _print_passage(passage: CitedPassage, *, as_json: bool) -> None:
    if as_json:
        print_json(passage.model_dump(mode="json"))
        return
    console = stdout()
    console.print(one_line(passage.label), style="bold")
    console.print(printable(passage.text))


def _as_json(document: Document, chunks: list[Chunk] | None) -> dict[str, Any]:
    fields = document.model_dump(mode="json")
    if chunks is not None:
        fields["chunks"] = [chunk.model_dump(mode="json") for chunk in chunks]
    return fields


def _print_document(document: Document, chunks: list[Chunk] | None) -> None:
    from lagotto.cli.render import print_fields

    console = stdout()
    fields = {"id": document.id, **document.model_dump(mode="json", exclude=UNLISTED)}
    print_fields(console, {name: one_line(_shown(value)) for name, value in fields.items()})
    if chunks is None:
        console.print()
        console.print(printable(document.text))
    for chunk in chunks or ():
        console.print()
        console.print(_heading(chunk), style="bold")
        console.print(printable(chunk.text.strip()))


def _shown(value: object) -> str:
    if isinstance(value, str | None):
        return value or ""
    return json.dumps(value, ensure_ascii=False) if value else ""


def _heading(chunk: Chunk) -> str:
    from lagotto.results import format_citation

    citation = format_citation(
        f"{chunk.level} {chunk.ordinal}, characters {chunk.start}-{chunk.end}, "
        f"{chunk.token_count} tokens",
        chunk,
    )
    return one_line(citation.removeprefix("Doc: "))
