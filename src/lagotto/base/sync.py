"""Which files of a folder `sync` reads, which documents it removes, and metadata of paths."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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


class Move(NamedTuple):
    """A document of a file that is gone, and one of a file with the same content."""

    origin: str
    target: str
    document_id: str


class FolderSync:
    """One run of `sync`: which files `load` has to read, then what is gone."""

    def __init__(
        self, store: Store, *, options: ReadOptions, metadata: PathMetadata, checksum: bool = False
    ) -> None:
        self._store = store
        self._files = store.source_files
        self._collection = options.collection
        self._options = options.model_dump(mode="json")
        self._metadata = metadata
        self._checksum = checksum
        self._former: dict[str, SourceFile] = {}
        self._stored: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        """The source of each stored document, by its id."""
        self._current: dict[str, SourceFile] = {}
        self._read: set[str] = set()
        self._unchanged: set[str] = set()

    async def start(self) -> None:
        self._former = await self._files.load(self._collection)
        documents = await self._files.documents(self._collection)
        self._stored = _digests(documents)
        self.sources = {document.id: document.source for document in documents}

    def needs_reading(self, source: Source, path: Path) -> bool:
        """Whether a file has changed since it was read, or `checksum` is set."""
        file = self._current[source.name] = self._state(source, path)
        former = self._former.get(source.name)
        unchanged = (
            not self._checksum
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
        options = self._options | {"metadata": self._metadata.of(source.name)}
        return SourceFile(
            path=absolute if absolute == storable(absolute) else source.name,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns if settled else None,
            options=digest(__version__, options),
            documents="",
        )

    async def finish(
        self,
        folders: Sequence[str | Path],
        *,
        read: set[str],
        seen: Collection[DocumentRef],
        failures: Iterable[ReadFailure],
        moved: bool = False,
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
        roots, paths = _resolved(folders), _absolute(folders)
        gone = dict.fromkeys(
            document
            for document in documents
            if DocumentRef(self._collection, document.id) not in seen
            and not _lies_in(document.source, failed)
            and self._is_gone(document.source, roots, paths)
        )
        candidates = _moves(documents, roots) if moved or read else {}
        pending = [] if moved else [move for old, move in candidates.items() if old not in gone]
        moves = list(candidates.values()) if moved else []
        gone |= dict.fromkeys(candidates if moved else ())
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

    async def _carry_metadata(self, moves: Iterable[Move]) -> None:
        """Take the metadata that was given for the old paths of documents to the new ones."""
        metadata_of = self._metadata.of
        carried = {
            move: {**metadata_of(move.origin), **metadata_of(move.target)}
            for move in moves
            if metadata_of(move.origin)
        }
        if not carried:
            return
        await self._files.set_path_metadata(
            self._collection, {move.target: metadata for move, metadata in carried.items()}
        )
        for move, metadata in carried.items():
            if document := await self._store.get(self._collection, move.document_id):
                await self._store.update([_with_metadata(document, metadata)])


def _moves(documents: Sequence[SourceDocument], roots: set[Path]) -> dict[SourceDocument, Move]:
    """The documents of files that are gone whose content a file below `roots` has now."""
    by_content: dict[str, list[SourceDocument]] = defaultdict(list)
    for document in sorted(documents, key=lambda document: document.source):
        if Path(document.source).is_absolute():
            by_content[document.content_hash].append(document)
    moves: dict[SourceDocument, Move] = {}
    for same in by_content.values():
        if len(same) < 2 or not any(_lies_in(document.source, roots) for document in same):
            continue
        missing = dict.fromkeys(document for document in same if _is_missing(document.source))
        here = (one for one in same if one not in missing and _lies_in(one.source, roots))
        if target := next(here, None):
            moves |= {one: Move(one.source, target.source, target.id) for one in missing}
    return moves


def _notes(moved: Collection[Move], pending: Collection[Move], skipped: set[str]) -> Iterator[str]:
    if moved:
        first, verb = min(moved), "was" if len(moved) == 1 else "were"
        documents = counted(len(moved), "document")
        yield f"{documents} {verb} moved, such as {first.origin} to {first.target}"
    if pending:
        first = min(pending)
        yield (
            f"{counted(len(pending), 'document')} of files that are gone have the content of files "
            f"here, such as {first.origin} that of {first.target}; sync with --prune-moved removes "
            "them"
        )
    if skipped:
        verb = "is" if len(skipped) == 1 else "are"
        yield (
            f"{counted(len(skipped), 'file')} {verb} skipped now, but the documents read from "
            f"there earlier are kept, such as those of {min(skipped)}; `lagotto remove` removes "
            "them"
        )


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
