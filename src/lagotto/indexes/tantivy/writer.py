"""The full-text index of the embedded store, on tantivy.

Disposable: whatever is in it can be made again from the database. Terms come ready made and are
indexed as they are. Scores are BM25 with k1 = 1.2 and b = 0.75; a chunk's length is exact up to 40
terms, above that tantivy rounds it down to one of some 200 steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tantivy import Document, Index, IndexWriter, Query

from lagotto.concurrency import give_way
from lagotto.errors import IndexDamagedError, StoreBusyError
from lagotto.indexes.base import ChunkKeys, LogPosition
from lagotto.indexes.filter_keys import FilterKeys
from lagotto.indexes.hits import Hits
from lagotto.indexes.tantivy.disk import (
    ALL_FILES,
    ANNOUNCEMENT,
    META,
    SMALL_FILES,
    Announcement,
    TantivyMeta,
    check_files,
    fingerprint,
    read_state,
)
from lagotto.indexes.tantivy.errors import tantivy_errors
from lagotto.indexes.tantivy.query import DOCUMENT, KEY, TERMS, index_schema
from lagotto.indexes.tantivy.search import HeldTerm, TantivySnapshot
from lagotto.indexes.text_query import TextQuery, Word

WRITER_HEAP = 100_000_000
"""Memory for new documents before they become a segment; only what is used is taken."""

PAUSE = 0.05
"""Between two attempts to become the writer, in seconds."""


class TantivyWriter:
    """A full-text index in a folder: many readers, one writer, in threads and in processes.

    What can't be used any more raises IndexDamagedError: wipe the folder, open it again and apply
    everything. Searching and scoring read the state of the last `apply` or `reload_if_changed`
    of this object; take `snapshot` to ask one state several times.
    """

    def __init__(self, folder: Path, index: Index, *, timeout: float) -> None:
        self._folder = folder
        self._index = index
        self._timeout = timeout
        self._loading = threading.Lock()
        self._held = HeldTerm()
        self._snapshot, self._seen = self._load()

    @classmethod
    def open(cls, folder: Path, *, timeout: float = 30.0) -> TantivyWriter:
        """Open the index in `folder`, or make an empty one with stamp 0.

        `timeout`: how many seconds `apply` waits for another writer. Files that are missing, cut
        off or of another version are found here, also wrong bytes in the small ones; `verify`
        looks at the large ones as well.
        """
        with tantivy_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / ANNOUNCEMENT).exists() and not (folder / META).exists():
                raise IndexDamagedError(f"the text index {folder} has lost {META}")
            index = Index(index_schema(), str(folder))
            index.config_reader("manual")
            check_files(folder, SMALL_FILES)
        return cls(folder, index, timeout=timeout)

    @property
    def snapshot(self) -> TantivySnapshot:
        """The index as it is now, to be searched several times."""
        return self._snapshot

    @property
    def stamp(self) -> int:
        """The number of the last change that was applied."""
        return self._snapshot.position.number

    @property
    def position(self) -> LogPosition:
        """The last change that was applied, and its token."""
        return self._snapshot.position

    @property
    def dead_share(self) -> float:
        """The part of the documents that is removed but not yet merged away.

        They are never found, but still count in the BM25 statistics. Only making the index again
        gets rid of them at once.
        """
        return self._snapshot.dead / max(1, self._snapshot.total)

    def search(self, query: TextQuery, k: int, *, allowed: FilterKeys | None = None) -> Hits:
        """As `TantivySnapshot.search`."""
        return self._snapshot.search(query, k, allowed=allowed)

    def scores(self, query: TextQuery, keys: ChunkKeys) -> NDArray[np.float32]:
        """As `TantivySnapshot.scores`."""
        return self._snapshot.scores(query, keys)

    def vocabulary(self) -> list[str]:
        """As `TantivySnapshot.vocabulary`."""
        return self._snapshot.vocabulary()

    def document_frequency(self, word: Word) -> int:
        """As `TantivySnapshot.document_frequency`."""
        return self._snapshot.document_frequency(word)

    def apply(
        self,
        *,
        added: Iterable[tuple[int, Sequence[str]]],
        removed: Iterable[int],
        since: int,
        stamp: int,
        token: int = 0,
        owners: Mapping[int, int] | None = None,
    ) -> None:
        """Apply the changes after `since` up to `stamp` in one commit: keys come, keys go.

        A key that is there already is replaced. Another process may have been here: if the index
        has got to `stamp`, or was made again and hasn't got to `since`, nothing is done, and
        `stamp` tells where it is. As it may also have come part of the way, `removed` has to name
        all keys that went, even those that came after `since`. `token` is that of the commit
        which the change `stamp` belongs to, `owners` are the documents of the added chunks.
        """
        chunks = {key: " ".join(terms) for key, terms in added}
        replaced = {*chunks, *removed}
        with self._writing() as writer:
            current, meta = read_state(self._folder)
            if since <= current.number < stamp:
                _change(writer, chunks, replaced, owners or {})
                after = LogPosition(stamp, token)
                _announce(self._folder, meta, before=current if replaced else after, after=after)
                if replaced:
                    writer.commit()
        self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """See the newest commit of any process; costs next to nothing if there is none."""
        with self._loading, tantivy_errors(self._folder):
            if self._seen != fingerprint(self._folder):
                self._snapshot, self._seen = self._load()

    def verify(self) -> None:
        """Compare the checksums of all files; reads about two gigabytes a second."""
        with tantivy_errors(self._folder):
            check_files(self._folder, ALL_FILES)

    def _load(self) -> tuple[TantivySnapshot, tuple[int, ...]]:
        """The newest state with its number, read again if a commit came in between."""
        while True:
            snapshot, seen = self._load_once()
            if seen == fingerprint(self._folder):
                return snapshot, seen

    def _load_once(self) -> tuple[TantivySnapshot, tuple[int, ...]]:
        with tantivy_errors(self._folder):
            seen = fingerprint(self._folder)
            position, meta = read_state(self._folder)
            self._index.reload()
            snapshot = TantivySnapshot(
                folder=self._folder,
                searcher=self._index.searcher(),
                schema=self._index.schema,
                position=position,
                total=meta.total,
                dead=meta.dead,
                held=self._held,
            )
        return snapshot, seen

    @contextmanager
    def _writing(self) -> Iterator[IndexWriter]:
        """Be the one writer; merges are finished and old files gone when it ends."""
        with tantivy_errors(self._folder):
            writer = self._wait_for_writer()
            try:
                # what a killed writer left would be in the way of new files of the same names
                writer.garbage_collect_files()
                yield writer
            finally:
                writer.wait_merging_threads()

    def _wait_for_writer(self) -> IndexWriter:
        deadline = time.monotonic() + self._timeout
        while (writer := self._become_writer()) is None:
            if time.monotonic() >= deadline:
                raise StoreBusyError(
                    f"another writer has held the text index {self._folder} for over "
                    f"{self._timeout:g} seconds; try again when it has finished"
                )
            time.sleep(PAUSE)
        return writer

    def _become_writer(self) -> IndexWriter | None:
        """A writer that knows all files in the folder, or None while there is another one."""
        seen = fingerprint(self._folder)
        try:
            # an Index clears away only what it has made itself, or has found when it was opened
            writer = Index.open(str(self._folder)).writer(WRITER_HEAP, num_threads=1)
        except ValueError as exc:
            if "LockBusy" in str(exc):
                return None
            raise
        if seen == fingerprint(self._folder):
            return writer
        writer.wait_merging_threads()
        return None


def _announce(folder: Path, meta: TantivyMeta, *, before: LogPosition, after: LogPosition) -> None:
    Announcement(
        base=meta.opstamp,
        before=before.number,
        after=after.number,
        before_token=before.token,
        after_token=after.token,
    ).write(folder)


def _change(
    writer: IndexWriter,
    chunks: Mapping[int, str],
    replaced: Iterable[int],
    owners: Mapping[int, int],
) -> None:
    if keys := sorted(replaced):
        writer.delete_documents_by_query(Query.term_set_query(index_schema(), KEY, keys))
    for key, terms in chunks.items():
        give_way()
        document = Document()
        document.add_integer(KEY, key)
        if key in owners:
            document.add_integer(DOCUMENT, owners[key])
        document.add_text(TERMS, terms)
        writer.add_document(document)
