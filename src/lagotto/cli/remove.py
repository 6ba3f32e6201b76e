"""`remove`: documents by id, filter or collection."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.options import AsJson, BaseOptions, Filters, InCollection
from lagotto.cli.output import print_json, say
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.documents import Document
    from lagotto.sync_facade import KnowledgeBase


def remove(
    base: BaseOptions,
    document_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="The ids of the documents.")
    ] = None,
    collection: InCollection = None,
    filters: Filters = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove documents by id, by filter, or a whole collection. All conditions must hold."""
    ids = document_ids or []
    if not ids and collection is None and filters is None:
        raise ConfigError(
            "nothing to remove was given; pass ids, --collection or --filters "
            "(--filters '{}' removes everything)"
        )
    with open_existing(base) as kb:
        found = _matching(kb, ids, collection, filters)
        if found and not yes:
            _confirm(len(found), kb.base.location)
        everything = None if ids else "{}"  # of a collection that was asked for by name
        gone = kb.remove(*ids, collection=collection, filters=filters or everything)
    if as_json:
        print_json({"removed": gone})
    else:
        typer.echo(f"{len(gone)} removed")


def _matching(
    kb: KnowledgeBase, ids: list[str], collection: str | None, filters: str | None
) -> list[Document]:
    """The documents to remove; ConfigError if one of `ids` is not among them."""
    from lagotto.filters import And, In, parse_filter

    wanted = And(In("document_id", ids), parse_filter(filters)) if ids else parse_filter(filters)
    found = kb.documents(filters=wanted, collection=collection)
    unknown = sorted(set(ids) - {document.id for document in found})
    if unknown:
        raise ConfigError(
            f"no such document: {', '.join(unknown)}; `lagotto list` shows the ids; "
            "nothing was removed"
        )
    return found


def _confirm(count: int, location: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigError(
            f"this removes {count} documents from {location}; pass --yes to confirm, since stdin "
            "is not a terminal"
        )
    if not typer.confirm(f"Remove {count} documents from {location}?", err=True):
        say("nothing was removed")
        raise typer.Exit(1)
