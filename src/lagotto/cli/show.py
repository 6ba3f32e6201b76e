"""`show`: a document, its chunks, or the text of a citation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.options import AsJson, BaseOptions, InCollection
from lagotto.cli.output import UNLISTED, one_line, print_json, printable, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.context import CitedPassage
    from lagotto.documents import Chunk, Document
    from lagotto.sync_facade import KnowledgeBase

CITATION = re.compile(r"\A[^\s/#]++/[^\s/#]++#\d++-\d++(~[0-9a-f]{8})?")


def show(
    document_id: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT_ID", help="The id of a document, or the key of a citation."
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
        if CITATION.fullmatch(document_id):
            _print_passage(kb.resolve(document_id), as_json=as_json)
            return
        document = _find(kb, document_id, collection)
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


def _find(kb: KnowledgeBase, document_id: str, collection: str | None) -> Document:
    from lagotto.filters import Eq

    found = kb.documents(filters=Eq("document_id", document_id), collection=collection)
    if len(found) > 1:
        names = ", ".join(document.collection for document in found)
        raise ConfigError(
            f"the id {document_id!r} is in several collections: {names}; pass --collection"
        )
    document = kb.get(document_id, collection=found[0].collection) if found else None
    if document is None:
        raise ConfigError(f"no document has the id {document_id!r}; `lagotto list` shows the ids")
    return document


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
