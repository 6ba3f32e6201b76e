"""Which files of a folder `sync` reads, which documents it removes, and metadata of paths."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagotto import __version__
from lagotto._internal.display import counted
from lagotto._internal.locations import is_web_address
from lagotto.documents import Document, DocumentRef, Metadata, digest, storable
from lagotto.readers import ReadFailure, ReadOptions, Source
from lagotto.stores.base import SourceDocument, SourceFile, SourceFiles, Store


@dataclass(frozen=True, slots=True)
class PathMetadata:
    """The metadata of the paths of a collection: what `add` and `sync` were given for them."""

    by_path: Mapping[str, Metadata]

    @classmethod
    async def load(
        cls, files: SourceFiles, paths: Iterable[str | Path | Source], options: ReadOptions
    ) -> PathMetadata:
        """What is stored, with that of `options` for `paths`, which is stored from now on."""
        stored = await files.path_metadata(options.collection)
        changed = {}
        for path in paths if options.metadata else ():
            if isinstance(path, Source):
                continue
            name = str(path) if is_web_address(path) else str(*_resolved([path]))
            merged = {**stored.get(name, {}), **options.metadata}
            if merged != stored.get(name):
                changed[name] = merged
        if changed:
            await files.set_path_metadata(options.collection, changed)
        return cls({**stored, **changed})

    def of(self, source: str) -> Metadata:
        """The metadata of a source and of the folders above it, the nearest last."""
        above = () if is_web_address(source) else reversed(Path(source).parents)
        metadata: dict[str, Any] = {}
        for name in (*map(str, above), source):
            metadata |= self.by_path.get(name, {})
        return metadata

    def applied(
        self, results: Iterable[Document | ReadFailure]
    ) -> Iterator[Document | ReadFailure]:
        """Documents with the metadata of their sources over their own."""
        for result in results:
            if isinstance(result, Document):
                result = _with_metadata(result, self.of(result.source))
            yield result


def _with_metadata(document: Document, metadata: Metadata) -> Document:
    if not metadata:
        return document
    return document.model_copy(update={"metadata": {**document.metadata, **metadata}})


SETTLED_NS = 2_000_000_000
"""Nanoseconds that a file must be older than its reading, lest a later change have its time."""


Moves = dict[SourceDocument, SourceDocument]
"""Documents of files that are gone, each with one of a file with the same content."""


@dataclass(eq=False)
class FolderSync:
    """One run of `sync`: which files `load` has to read, then what is gone.

    `sources` are those of the stored documents, by their ids.
    """

    store: Store
    folders: Sequence[str | Path]
    options: ReadOptions
    checksum: bool
    moved: bool

    async def start(self) -> None:
        self._files, self._collection = self.store.source_files, self.options.collection
        self.metadata = await PathMetadata.load(self._files, self.folders, self.options)
        self._options = self.options.model_dump(mode="json")
        self._former = await self._files.load(self._collection)
        documents = await self._files.documents(self._collection)
        self._stored = _digests(documents)
        self.sources = {document.id: document.source for document in documents}
        self._current: dict[str, SourceFile] = {}
        self._unchanged: set[str] = set()

    def needs_reading(self, source: Source, path: Path) -> bool:
        """Whether a file has changed since it was read, or `checksum` is set."""
        file = self._current[source.name] = self._state(source, path)
        former = self._former.get(source.name)
        unchanged = (
            not self.checksum
            and former is not None
            and former.mtime_ns is not None
            and (former.size, former.mtime_ns, former.options)
            == (file.size, file.mtime_ns, file.options)
            and former.documents == self._stored.get(source.name)
        )
        if unchanged:
            self._unchanged.add(source.name)
        return not unchanged

    def _state(self, source: Source, path: Path) -> SourceFile:
        status = (source.path or path).stat()
        absolute = os.path.abspath(path)  # noqa: PTH100 links stay unresolved
        settled = status.st_mtime_ns < time.time_ns() - SETTLED_NS
        options = self._options | {"metadata": self.metadata.of(source.name)}
        return SourceFile(
            path=absolute if absolute == storable(absolute) else source.name,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns if settled else None,
            options=digest(__version__, options),
            documents="",
        )

    async def finish(
        self, *, read: set[str], seen: Collection[DocumentRef], failures: Iterable[ReadFailure]
    ) -> tuple[list[str], int, tuple[str, ...]]:
        """Store the state of the files.

        Returns the ids of documents to remove, the number of those not read again, and notes.
        `read` are the files that were read to their ends, `seen` the documents that were read.
        With `moved`, documents from anywhere are to be removed if their files are gone and a file
        in `folders` has their content, which takes over the metadata given for the old path;
        without it, a note counts them.
        """
        self._read = read
        documents = await self._files.documents(self._collection)
        failed = _resolved(failure.source for failure in failures)
        roots, paths = _resolved(self.folders), _absolute(self.folders)
        gone = dict.fromkeys(
            document
            for document in documents
            if DocumentRef(self._collection, document.id) not in seen
            and not _lies_in(document.source, failed)
            and self._is_gone(document.source, roots, paths)
        )
        candidates = _moves(documents, roots) if self.moved or read else {}
        moves = candidates if self.moved else {}
        pending = {old: new for old, new in candidates.items() if not (self.moved or old in gone)}
        gone |= dict.fromkeys(moves)
        remaining = [document for document in documents if document not in gone]
        await self._save(remaining, gone, failed)
        await self._carry_metadata(moves)
        current = read | self._unchanged
        skipped = {
            document.source
            for document in remaining
            if document.source not in current
            and _lies_in(document.source, roots)
            and not _lies_in(document.source, failed)
        }
        unchanged = sum(document.source in self._unchanged for document in documents)
        notes = tuple(_notes(moves, pending, skipped))
        return [document.id for document in gone], unchanged, notes

    def _is_gone(self, source: str, roots: set[Path], paths: set[Path]) -> bool:
        if source in self._unchanged:
            return False
        if source in self._read:
            return True
        if source in self._current:  # skipped this time; the link that led to it before may be gone
            return False
        if _lies_in(source, roots) and _is_missing(source):
            return True
        former = self._former.get(source)
        if former is None or not _lies_in(former.path, paths) or not _is_missing(former.path):
            return False
        above = Path(former.path).parents
        return not any(link.is_symlink() and not link.exists() for link in above)  # another disk?

    async def _save(
        self, remaining: list[SourceDocument], gone: Iterable[SourceDocument], failed: set[Path]
    ) -> None:
        stored = _digests(remaining)
        files = {
            source: self._current[source]._replace(documents=stored[source])
            for source in self._read | self._unchanged
            if source in stored and not _lies_in(source, failed)
        }
        changed = {name: file for name, file in files.items() if file != self._former.get(name)}
        sources = {document.source for document in gone} - stored.keys()
        await self._files.save(self._collection, changed, gone=sources & self._former.keys())

    async def _carry_metadata(self, moves: Moves) -> None:
        """Take the metadata that was given for the old paths of documents to the new ones."""
        metadata_of = self.metadata.of
        carried = [
            (new, {**metadata, **metadata_of(new.source)})
            for old, new in moves.items()
            if (metadata := metadata_of(old.source))
        ]
        if carried:
            by_path = {new.source: metadata for new, metadata in carried}
            await self._files.set_path_metadata(self._collection, by_path)
        for new, metadata in carried:
            if document := await self.store.get(self._collection, new.id):
                await self.store.update([_with_metadata(document, metadata)])


def _moves(documents: Sequence[SourceDocument], roots: set[Path]) -> Moves:
    """The documents of files that are gone whose content a file below `roots` has now."""
    by_content: dict[str, list[SourceDocument]] = defaultdict(list)
    for document in sorted(documents, key=lambda document: document.source):
        if Path(document.source).is_absolute():
            by_content[document.content_hash].append(document)
    moves: Moves = {}
    for same in by_content.values():
        if len(same) < 2 or not any(_lies_in(document.source, roots) for document in same):
            continue
        missing = dict.fromkeys(document for document in same if _is_missing(document.source))
        here = (one for one in same if one not in missing and _lies_in(one.source, roots))
        if target := next(here, None):
            moves |= dict.fromkeys(missing, target)
    return moves


def _notes(moved: Moves, pending: Moves, skipped: set[str]) -> Iterator[str]:
    if moved:
        verb, (old, new) = "was" if len(moved) == 1 else "were", _first(moved)
        yield f"{counted(len(moved), 'document')} {verb} moved, such as {old} to {new}"
    if pending:
        old, new = _first(pending)
        yield (
            f"{counted(len(pending), 'document')} of files that are gone have the content of files "
            f"here, such as {old} that of {new}; sync with --prune-moved removes them"
        )
    if skipped:
        verb = "is" if len(skipped) == 1 else "are"
        yield (
            f"{counted(len(skipped), 'file')} {verb} skipped now, but the documents read from "
            f"there earlier are kept, such as those of {min(skipped)}; `lagotto remove` removes "
            "them"
        )


def _first(moves: Moves) -> tuple[str, str]:
    return min((old.source, new.source) for old, new in moves.items())


def _resolved(paths: Iterable[str | Path]) -> set[Path]:
    return {Path(path).expanduser().resolve() for path in paths}


def _absolute(paths: Iterable[str | Path]) -> set[Path]:
    return {Path(os.path.abspath(path)) for path in paths}  # noqa: PTH100 links stay unresolved


def _lies_in(source: str, roots: set[Path]) -> bool:
    if not source or not roots:
        return False
    path = Path(source)
    return not roots.isdisjoint((path, *path.parents))


def _digests(documents: Iterable[SourceDocument]) -> dict[str, str]:
    """A digest of the documents of each source."""
    by_source: dict[str, list[SourceDocument]] = defaultdict(list)
    for document in documents:
        by_source[document.source].append(document)
    return {source: digest(sorted(group)) for source, group in by_source.items() if source}


def _is_missing(path: str) -> bool:
    """Whether there is no such file; False if that can't be known."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False
