"""`remove`: documents by id, filter or collection."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.lookup import described, find_documents
from lagotto.cli.options import AsJson, BaseOptions, Filters, InCollection
from lagotto.cli.output import print_json, say
from lagotto.display import counted
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.documents import Document
    from lagotto.sync_facade import KnowledgeBase


def remove(
    base: BaseOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOCUMENT", help="Ids or their beginnings, paths, titles."),
    ] = None,
    collection: InCollection = None,
    filters: Filters = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove documents by name, by filter, or a whole collection. All conditions must hold."""
    if not names and collection is None and filters is None:
        raise ConfigError(
            "nothing to remove was given; pass ids, paths, --collection or --filters "
            "(--filters '{}' removes everything)"
        )
    with open_existing(base) as kb:
        found = _matching(kb, names or [], collection, filters)
        if found and not yes:
            _confirm(found, kb.base.location)
        gone = [
            name
            for where, ids in _by_collection(found).items()
            for name in kb.remove(*ids, collection=where, filters=filters)
        ]
    if as_json:
        print_json({"removed": gone})
    else:
        typer.echo(f"{len(gone)} removed")


def _matching(
    kb: KnowledgeBase, names: list[str], collection: str | None, filters: str | None
) -> list[Document]:
    """The documents to remove; ConfigError if one of `names` stands for none of them."""
    if not names:
        return kb.documents(filters=filters, collection=collection)
    found = {
        (document.collection, document.id): document
        for name in names
        for document in _named(kb, name, collection, filters)
    }
    return list(found.values())


def _named(
    kb: KnowledgeBase, name: str, collection: str | None, filters: str | None
) -> list[Document]:
    from lagotto.filters import And, In, parse_filter

    found = find_documents(kb, name, collection=collection)
    if filters is None:
        return found
    named = In("document_id", [document.id for document in found])
    kept = kb.documents(filters=And(named, parse_filter(filters)), collection=collection)
    if not kept:
        raise ConfigError(f"the filter leaves out {name!r}; nothing was removed")
    return kept


def _by_collection(documents: list[Document]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for document in documents:
        ids.setdefault(document.collection, []).append(document.id)
    return ids


def _confirm(found: list[Document], location: str) -> None:
    count = counted(len(found), "document")
    if not sys.stdin.isatty():
        raise ConfigError(
            f"this removes {count} from {location}; pass --yes to confirm, since stdin "
            "is not a terminal"
        )
    say(described(found))
    if not typer.confirm(f"Remove {count} from {location}?", err=True):
        say("nothing was removed")
        raise typer.Exit(1)
