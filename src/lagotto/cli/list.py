"""`list`: the documents of a base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.cli.connect import open_existing
from lagotto.cli.options import AsJson, BaseOptions, Filters, InCollection
from lagotto.cli.output import UNLISTED, one_line, print_json, say, stdout

if TYPE_CHECKING:
    from lagotto.documents import Document

COLUMNS = ("id", "title", "kind", "language", "source", "updated")


def list_documents(
    base: BaseOptions,
    collection: InCollection = None,
    filters: Filters = None,
    as_json: AsJson = False,
) -> None:
    """List documents."""
    with open_existing(base) as kb:
        found = kb.documents(collection=collection, filters=filters)
    if as_json:
        print_json([document.model_dump(mode="json", exclude=UNLISTED) for document in found])
        return
    if not found:
        say("no documents")
        return
    from lagotto.cli.render import print_table

    print_table(stdout(), COLUMNS, map(_row, found), whole="id")


def _row(document: Document) -> tuple[str, ...]:
    updated = f"{document.updated_at:%Y-%m-%d}" if document.updated_at else ""
    source = _from_here(document.source)
    texts = (document.id, document.title, document.kind, document.language, source)
    return (*map(one_line, texts), updated)


def _from_here(source: str) -> str:
    """`source` relative to the current folder, if it is a path below it."""
    path, here = Path(source), Path.cwd()
    return str(path.relative_to(here)) if here in path.parents else source
