"""`info`: the size of a base and what it was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lagotto.cli.connect import open_existing
from lagotto.cli.options import AsJson, BaseOptions
from lagotto.cli.output import one_line, print_json, stdout, warn
from lagotto.display import counted

if TYPE_CHECKING:
    from lagotto.stores.base import StoreInfo


def info(base: BaseOptions, as_json: AsJson = False) -> None:
    """Show the size of a knowledge base and what it was made with."""
    with open_existing(base) as kb:
        found = kb.info()
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    from rich.filesize import decimal

    from lagotto.cli.render import print_fields

    collections = (f"{name} ({count})" for name, count in found.collections.items())
    fields = {
        "base": found.location,
        "documents": str(found.documents),
        "chunks": str(found.chunks),
        "collections": ", ".join(collections),
        "languages": _languages(found),
        "embedder": _embedder(found),
        "chunker": found.chunker_id or "",
        "text index": found.text_index or "",
        "vectors in": _remote(found.vector_index),
        "not indexed": _not_indexed(found),
        "size": decimal(found.bytes_on_disk),
    }
    print_fields(stdout(), {name: one_line(value) for name, value in fields.items()})
    warn(found.degraded)


def _remote(index: str | None) -> str:
    """An index behind a network; the usual ones are not worth a line."""
    return index if index and ":" in index else ""


def _not_indexed(found: StoreInfo) -> str:
    """The indexes that the next search has to bring up to date before it can answer.

    Fewer changes are read from the base as if they were indexed.
    """
    from lagotto.indexes.overlay import MOST_CHUNKS

    behind = {index.role: index.changes - index.indexed_up_to for index in found.indexes}
    late = [f"{counted(n, 'change')} ({role})" for role, n in behind.items() if n > MOST_CHUNKS]
    return f"{', '.join(late)}; the next search indexes them first" if late else ""


def _embedder(found: StoreInfo) -> str:
    """The model, by its name and as it was asked for: `all-MiniLM-L6-v2 (minilm)`."""
    if found.model_id is None:
        return ""
    details = [found.embedder] if found.embedder else []
    details += [f"dimension {found.dimension}"] if found.dimension else []
    return f"{found.model_id} ({', '.join(details)})" if details else found.model_id


def _languages(found: StoreInfo) -> str:
    unknown = found.of_unknown_language
    if not unknown:
        return ", ".join(found.languages)
    documents = counted(unknown, "document")
    if not found.languages:
        return f"unknown for {documents}, which are not stemmed"
    return (
        f"{', '.join(found.languages)}; unknown for {documents}, stemmed as most of the collection"
    )
