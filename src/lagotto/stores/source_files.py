"""The state of the files that `sync` has read, so that unchanged ones are not read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from lagotto.documents import Metadata


class SourceFile(NamedTuple):
    """The state of a file when its documents were stored.

    `path` is where the folder has it, which is not the source if there are links. `mtime_ns` is
    None if the file was too new for a later change to show. `options` is a digest of how it was
    read, `documents` one of the documents read from it.
    """

    path: str
    size: int
    mtime_ns: int | None
    options: str
    documents: str


class SourceDocument(NamedTuple):
    """A stored document: its id, its source, and hashes of its content and its other fields."""

    id: str
    source: str
    content_hash: str
    fingerprint: str


class SourceFiles(Protocol):
    """Keeps the state of source files, by collection and source. It may forget any of them."""

    async def documents(self, collection: str) -> list[SourceDocument]:
        """All documents of a collection, in any order."""
        ...

    async def load(self, collection: str) -> dict[str, SourceFile]:
        """The files of a collection, by their sources."""
        ...

    async def save(
        self, collection: str, files: Mapping[str, SourceFile], *, gone: Collection[str] = ()
    ) -> None:
        """Store the state of files, and forget those that are gone."""
        ...

    async def given(self, collection: str) -> dict[str, Metadata]:
        """The metadata that was given for paths of a collection, by path."""
        ...

    async def give(self, collection: str, given: Mapping[str, Metadata]) -> None:
        """Store the metadata given for paths, in place of what was stored for them."""
        ...
