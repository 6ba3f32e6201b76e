"""Documents by what people have at hand: an id, a path, a title, or the beginning of an id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lagotto.errors import ConfigError
from lagotto.suggestions import did_you_mean

if TYPE_CHECKING:
    from lagotto.documents import Document
    from lagotto.filters import Filter
    from lagotto.sync_facade import KnowledgeBase

SHORTEST_PREFIX = 4
"""Characters; fewer would name too many documents."""
LISTED = 5
COMPARED = 2_000
"""Documents whose titles are compared with an unknown name."""


def find_documents(kb: KnowledgeBase, name: str, *, collection: str | None) -> list[Document]:
    """The documents that `name` stands for; several for a folder or a file of many rows.

    Tried in this order: an id, a file or web address, a title, then folders and the beginnings of
    ids. ConfigError if there is none.
    """
    from lagotto.filters import Eq

    source = _source(name)
    conditions: list[Filter] = [Eq("document_id", name), Eq("source", source), Eq("title", name)]
    for condition in conditions:
        if found := kb.documents(filters=condition, collection=collection):
            return found
    if found := list(_near(kb, name, Path(source), collection)):
        return found
    some = islice(kb.iter_documents(collection=collection), COMPARED)
    titles = [document.title for document in some if document.title]
    raise ConfigError(
        f"no document has the id, path or title {name!r}{did_you_mean(name, titles)}; "
        "`lagotto list` shows the documents"
    )


def find_document(kb: KnowledgeBase, name: str, *, collection: str | None) -> Document:
    """The one document that `name` stands for, with its text."""
    found = find_documents(kb, name, collection=collection)
    if len(found) > 1:
        raise ConfigError(f"{name!r} is not unique: {described(found)}; {_remedy(found)}")
    document = kb.get(found[0].id, collection=found[0].collection)
    if document is None:
        raise ConfigError(f"the document {found[0].id} was removed a moment ago")
    return document


def described(documents: Sequence[Document]) -> str:
    """The first few documents, for messages."""
    names = [
        f"{document.id} ({document.title or document.source}, collection {document.collection})"
        for document in islice(documents, LISTED)
    ]
    more = len(documents) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _remedy(found: Sequence[Document]) -> str:
    several = len({document.id for document in found}) < len(found)
    return "pass --collection" if several else "give the id of one of them"


def _source(name: str) -> str:
    """`name` as the source of what was added from here: an absolute path, or a web address."""
    from lagotto.readers.base import is_address

    if is_address(name):
        return name.partition("#")[0]
    try:
        return Path(name).expanduser().resolve().as_posix()
    except (OSError, RuntimeError, ValueError):  # no path at all
        return name


def _near(kb: KnowledgeBase, name: str, path: Path, collection: str | None) -> Iterator[Document]:
    """The documents below a folder, or else those whose ids begin with `name`."""
    is_prefix = len(name) >= SHORTEST_PREFIX
    for document in kb.iter_documents(collection=collection):
        below = path in Path(document.source).parents if document.source else False
        if below or (is_prefix and document.id.startswith(name)):
            yield document
