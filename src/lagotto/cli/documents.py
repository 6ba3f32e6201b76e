"""`list`, `show` and `remove`: documents by id, path, title or filter."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

import typer

from lagotto._internal.display import counted
from lagotto._internal.registry import did_you_mean
from lagotto.cli import options
from lagotto.cli.connect import open_existing
from lagotto.cli.options import BaseOptions, argument, option, parse_filters
from lagotto.cli.output import UNLISTED, from_here, one_line, printable, say, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.documents import Chunk, Document
    from lagotto.filters import Filter


COMPARED = 2_000
"""Documents whose titles are compared with an unknown name."""


def find_document(kb: KnowledgeBase, name: str, *, collection: str | None) -> Document:
    """The one document that `name` stands for, without its text."""
    from lagotto.base.protocol import documents_called, only_document

    matches = kb.run(documents_called(kb.base, name, collection=collection))
    return only_document(name, matches) or _raise_unknown(kb, name, collection)


def _raise_unknown(kb: KnowledgeBase, name: str, collection: str | None) -> NoReturn:
    some = islice(kb.iter_documents(collection=collection), COMPARED)
    titles = [document.title for document in some if document.title]
    raise ConfigError(
        f"no document has the id, path or title {name!r}{did_you_mean(name, titles)}; "
        "`lagotto list` shows the documents"
    )


def list_documents(
    base: BaseOptions,
    collection: str | None = options.IN_COLLECTION,
    filters: list[str] | None = options.FILTERS,
) -> Iterator[object]:
    """List documents by path."""
    with open_existing(base) as kb:
        documents = kb.documents(collection=collection, filters=parse_filters(filters))
        names = {} if documents or collection is None else kb.collections()
    documents.sort(key=lambda document: (document.source, document.title or "", document.id))
    if names and collection not in names:
        say(f"warning: there is no collection {collection!r}{did_you_mean(str(collection), names)}")
    yield (document.model_dump(mode="json", exclude=UNLISTED) for document in documents)
    if not documents:
        say("no documents")
        return
    from lagotto.cli.render import print_table

    rows = []
    for each in documents:
        updated = f"{each.updated_at:%Y-%m-%d}" if each.updated_at else ""
        source = from_here(each.source)
        texts = (source, each.title, each.kind, each.language, updated, each.id)
        rows.append([one_line(text) for text in texts])
    columns = ("path", "title", "kind", "language", "updated", "id")
    print_table(stdout(), columns, rows, whole="id")


CITATION = re.compile(r"\A[^\s/#]++/[^\s/#]++#\d++-\d++(~[0-9a-f]{8})?")


def show(
    base: BaseOptions,
    name: str = argument(
        "An id or its beginning, a path, a title, or a citation key.", metavar="DOCUMENT"
    ),
    collection: str | None = options.IN_COLLECTION,
    chunks: bool = option("Show the chunks instead of the text.", default=False),
) -> Iterator[object]:
    """Show a document or a cited passage. The fields of a document, and its text or chunks."""
    console = stdout()
    with open_existing(base) as kb:
        if CITATION.fullmatch(name):
            passage = kb.resolve(name)
            yield passage
            console.print(one_line(passage.label), style="bold")
            console.print(printable(passage.text))
            return
        listed = find_document(kb, name, collection=collection)
        document = kb.get(listed.id, collection=listed.collection)
        if document is None:
            raise ConfigError(f"the document {listed.id} was removed a moment ago")
        pieces = kb.chunks(document.id, collection=document.collection) if chunks else []
    yield {**document.model_dump(mode="json"), **({"chunks": pieces} if chunks else {})}
    from lagotto.cli.render import print_fields

    fields = {"id": document.id, **document.model_dump(mode="json", exclude=UNLISTED)}
    for field, value in fields.items():
        if not isinstance(value, str | None):
            fields[field] = json.dumps(value, ensure_ascii=False) if value else ""
    print_fields(console, {field: one_line(value) for field, value in fields.items()})
    if not chunks:
        console.print()
        console.print(printable(document.text))
    for piece in pieces:
        console.print()
        console.print(_heading(piece), style="bold")
        console.print(printable(piece.text.strip()))


def _heading(chunk: Chunk) -> str:
    from lagotto.results import format_citation

    span = f"characters {chunk.start}-{chunk.end}, {chunk.token_count} tokens"
    citation = format_citation(f"{chunk.level} {chunk.ordinal}, {span}", chunk)
    return one_line(citation.removeprefix("Doc: "))


def remove(
    base: BaseOptions,
    names: list[str] | None = argument(
        "Ids or their beginnings, paths, titles.", metavar="DOCUMENT", default=None
    ),
    collection: str | None = options.IN_COLLECTION,
    filters: list[str] | None = options.FILTERS,
    yes: bool = option("Don't ask for confirmation.", flag="--yes -y", default=False),
) -> Iterator[object]:
    """Remove documents by name, by filter, or a whole collection. All conditions must hold."""
    if not names and collection is None and not filters:
        raise ConfigError(
            "nothing to remove was given; pass ids, paths, --collection or --filters "
            "(--filters '{}' removes everything)"
        )
    where = parse_filters(filters)
    with open_existing(base) as kb:
        if names:
            chosen = [each for name in names for each in _named(kb, name, collection, where)]
        else:
            chosen = kb.documents(filters=where, collection=collection)
        by_ref = {document.ref: document for document in chosen}
        if by_ref and not yes:
            _confirm(list(by_ref.values()), kb.base.location)
        by_collection: dict[str, list[str]] = {}
        for home, document_id in by_ref:
            by_collection.setdefault(home, []).append(document_id)
        gone = [
            name
            for home, ids in by_collection.items()
            for name in kb.remove(*ids, collection=home, filters=where)
        ]
    yield {"removed": gone}
    typer.echo(f"{len(gone)} removed")


def _named(
    kb: KnowledgeBase, name: str, collection: str | None, filters: Filter | None
) -> list[Document]:
    """The documents to remove; ConfigError if `name` stands for none of them."""
    from lagotto.base.protocol import documents_called
    from lagotto.filters import And, In

    called = documents_called(kb.base, name, collection=collection, by_end=False)
    matches = kb.run(called) or _raise_unknown(kb, name, collection)
    if filters is None:
        return matches
    named = In("document_id", [document.id for document in matches])
    documents = kb.documents(filters=And(named, filters), collection=collection)
    if not documents:
        raise ConfigError(f"the filter leaves out {name!r}; nothing was removed")
    return documents


def _confirm(documents: list[Document], location: str) -> None:
    count = counted(len(documents), "document")
    if not sys.stdin.isatty():
        raise ConfigError(
            f"this removes {count} from {location}; pass --yes to confirm, since stdin "
            "is not a terminal"
        )
    from lagotto.base.protocol import described

    say(described(documents))
    if not typer.confirm(f"Remove {count} from {location}?", err=True):
        say("nothing was removed")
        raise typer.Exit(1)
