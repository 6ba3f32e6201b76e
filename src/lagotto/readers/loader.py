"""Read documents from a file, bytes or a string, or from whole folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lagotto import errors
from lagotto._internal.concurrency import with_checkpoints
from lagotto._internal.display import counted
from lagotto._internal.locations import is_web_address
from lagotto.documents import CODE, ROW, Document, storable
from lagotto.errors import ReadError, native_panics
from lagotto.readers.base import Reader, ReadFailure, ReadOptions, Source
from lagotto.readers.formats import READERS, REMEDIES, Formats, Results
from lagotto.readers.ocr import Ocr, create_ocr
from lagotto.readers.process import ISOLATED, Limits, ReaderProcess
from lagotto.readers.walk import Selection, SkipLog, Skipped, SkipReason, Walk, unwanted_content
from lagotto.readers.web import FetchLimits, fetch

UNREADABLE = frozenset({"unsupported", "empty", "no text layer"})
"""Reasons for skipping files that no option changes."""

MOST_REASON = 500
MOST_SHOWN = 100


def read_path(path: str | Path, *, options: ReadOptions | None = None) -> Iterator[Document]:
    """Read the documents in a file; raises the first ReadError, even for a single invalid row.

    `Document.source` is the absolute path, so reading the file again gives the same ids. To
    continue after errors, or to read folders, use `load`.
    """
    source = Source.of_path(path)
    return _strict(Formats().reader(source), source, options)


def read_bytes(
    data: bytes, *, name: str = "", options: ReadOptions | None = None
) -> Iterator[Document]:
    """Read the documents in `data`; suffix of `name` and content decide on the format."""
    source = Source(name=name, data=data)
    return _strict(Formats().reader(source), source, options)


def read_text(
    text: str,
    *,
    kind: str = "text",
    title: str | None = None,
    source: str = "",
    options: ReadOptions | None = None,
) -> Iterator[Document]:
    """Read the documents in a string; `kind` is a reader: text, markdown, html, csv, ...

    Without `source`, a document's id depends on its content.
    """
    # The byte order mark takes precedence over an encoding that the text declares.
    data = storable(text).encode("utf-8-sig")
    return _strict(READERS.get(kind)(), Source(name=source, data=data, title=title), options)


def _strict(reader: Reader, source: Source, options: ReadOptions | None) -> Iterator[Document]:
    for result in reader.read(source, options=options or ReadOptions()):
        if isinstance(result, Document):
            yield result
        elif not isinstance(result, errors.NoTextLayerError):  # a blank page; the others were read
            raise result


NeedsReading = Callable[[Source, Path], bool]
"""Whether to read a file; the path is where it was found, before links were resolved."""


def load(
    paths: str | Path | Iterable[str | Path | Source],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    everything: bool = False,
    options: ReadOptions | None = None,
    limits: Limits | None = None,
    fetch_limits: FetchLimits | None = None,
    ocr: str | Ocr | None = None,
    needs_reading: NeedsReading = lambda _source, _path: True,
) -> Loading:
    """Read files, folders, web addresses and Sources.

    Yields documents one at a time, and a failure for each error.

    Folders are walked recursively in a fixed order; `include` and `exclude` are globs as in
    `Selection` and apply to folders only. In folders, formats without a reader, hidden files, those
    that .gitignore or .lagottoignore name, secrets, lock files, minified, generated and vendored
    files are skipped; `everything` reads all but the first. Empty files are skipped. What was
    skipped is in `Loading.skipped`. A file in `paths` of a format without a reader is a failure,
    and so is a folder without any file to read. No file is read twice.

    `ocr` reads the pages of a PDF without text: a callable that takes a PageImage, `tesseract`,
    `ocrmypdf`, or `auto` for the first of these that is installed. Pages that stay without text
    are in `Loading.notes`.

    PDF, HTML, office files, books and mail are read in a child process within `limits`: a file that
    makes it hang, crash or exceed its memory is a failure, and the other files are read.
    """
    return Loading(
        [paths] if isinstance(paths, str | Path) else paths,
        Selection(tuple(include), tuple(exclude), everything=everything),
        options or ReadOptions(),
        ReaderProcess(limits, ocr=create_ocr(ocr)),
        fetch_limits,
        needs_reading,
    )


@dataclass(eq=False, repr=False)
class Loading(Iterator["Document | ReadFailure"]):
    """The results of `load`; `interrupt`, from any thread, stops reading the current file.

    Nothing is opened before the first result is requested. `complete` has the names of the files
    that were read to their ends, without any failure; `source_by_id` the ids that were
    chosen for documents, with their sources.
    """

    paths: Iterable[str | Path | Source]
    _selection: Selection
    options: ReadOptions
    _process: ReaderProcess
    _fetch_limits: FetchLimits | None
    _needs_reading: NeedsReading

    def __post_init__(self) -> None:
        self.complete: set[str] = set()
        self.source_by_id: dict[str, str] = {}
        self._formats = Formats()
        self._done: set[str] = set()
        self._skipped = SkipLog()
        self._notes: list[str] = []
        self._remedies: Counter[str] = Counter()
        self._results = self._all()
        self._walked: dict[Path, tuple[Iterable[Path | ReadError], Walk]] = {}
        self._files: list[Path] = []

    def __next__(self) -> Document | ReadFailure:
        return next(self._results)

    @property
    def skipped(self) -> Skipped:
        """What was not read so far, and why."""
        return self._skipped.result()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to say of files that it did read, and what to do for skipped ones."""
        remedies = self._remedies.items()
        skipped = (f"{counted(count, 'file')} skipped: {remedy}" for remedy, count in remedies)
        return (*self._notes, *skipped)

    def interrupt(self) -> None:
        """Stop reading; the current file becomes a failure, and nothing follows it."""
        self._process.interrupt()

    def find_files(self) -> ReadError | None:
        """Walk the folders now, not while they are read, and return the first problem.

        That is an empty path, one that does not exist, or a folder without a selected file.
        """
        problems: list[ReadError] = []
        self.paths = tuple(self.paths)
        for item in self.paths:
            if isinstance(item, Source) or is_web_address(item):
                continue
            path = Path(item)
            files: list[Path | ReadError] = [path]
            try:
                check_path(item)
                if path.is_dir():
                    walk = Walk(path, self._selection)
                    files = list(with_checkpoints(walk))
                    self._walked[path] = files, walk
                    if not files:
                        raise _nothing_to_read(path, walk.skipped.result())
                self._files += [file for file in files if isinstance(file, Path)]
            except ReadError as exc:
                problems.append(exc)
        return problems[0] if problems else None

    def file_ends(self) -> dict[str, int]:
        """For each file of `find_files`, in reading order, the bytes up to its end."""
        ends: dict[str, int] = {}
        total = 0
        for file in self._files:
            with suppress(OSError):
                total += file.stat().st_size + 1
            ends.setdefault(Path(os.path.realpath(file)).as_posix(), total)
        return ends

    def _all(self) -> Iterator[Document | ReadFailure]:
        with closing(self._process):
            for path in self.paths:
                for result in self._of(path):
                    yield ReadFailure.of(result) if isinstance(result, ReadError) else result
                    if self._process.interrupted.is_set():
                        return

    def _of(self, path: str | Path | Source) -> Results:
        """Yield the documents and errors of one of the given paths, addresses or sources."""
        if isinstance(path, Source):
            return self._source(path)
        if is_web_address(path):
            return self._address(str(path))
        return self._folder(Path(path)) if Path(path).is_dir() else self._file(Path(path))

    def _source(self, source: Source) -> Results:
        try:
            yield from self._read(self._formats.name(source), source)
        except ReadError as exc:
            yield exc
        except Exception as exc:  # noqa: BLE001 a reader of another package may raise anything
            yield ReadError(source.label, f"the reader failed ({type(exc).__name__})")

    def _address(self, address: str) -> Results:
        try:
            source = fetch(
                address,
                max_bytes=self.options.max_bytes,
                limits=self._fetch_limits,
                interrupted=self._process.interrupted.is_set,
            )
        except ReadError as exc:
            yield exc
            return
        if source.name not in self._done:
            self._done.add(source.name)
            yield from self._source(source)

    def _folder(self, folder: Path) -> Results:
        if folder not in self._walked:
            walk = Walk(folder, self._selection)
            self._walked[folder] = walk, walk
        paths, walk = self._walked.pop(folder)
        tried = 0
        for item in paths:
            tried += 1
            if isinstance(item, ReadError):
                yield item
            else:
                yield from self._file(item, walk)
            if self._process.interrupted.is_set():
                return
        self._skipped.merge(walk.skipped)
        if tried == walk.skipped.unread:
            yield _nothing_to_read(folder, walk.skipped.result())

    def _file(self, path: Path, walk: Walk | None = None) -> Results:
        """Yield the documents and errors of a file; one that a walk has found may be skipped."""
        try:
            source = Source.of_path(path)
            is_new = source.name not in self._done
            self._done.add(source.name)
            if not (is_new and self._needs_reading(source, path)):
                return
            try:
                name = self._formats.name(source)
                in_all = walk is None or self._selection.everything
                unwanted: SkipReason | None = None if in_all else unwanted_content(source)
            except errors.UnsupportedFormatError as exc:
                if walk is None:
                    raise
                unwanted = "unsupported"
                if source.suffix in REMEDIES:
                    self._remedies[exc.reason] += 1
            if walk is not None and unwanted is not None:
                walk.skipped.add(path, unwanted)
                walk.skipped.unread += 1
                return
            failure: str | None = None
            relative = path.relative_to(walk.root).as_posix() if walk else path.name
            for result in self._read(name, source):
                if isinstance(result, Document):
                    result = self._named(result, storable(relative))
                if isinstance(result, ReadError):
                    if result.reason == failure:
                        continue  # what all rows lack is said once
                    failure = result.reason
                yield result
            if failure is None:
                self.complete.add(source.name)
        except errors.EmptySourceError as exc:
            scanned = isinstance(exc, errors.NoTextLayerError)
            if scanned and walk is None:
                yield exc
            else:
                self._skipped.add(path, "no text layer" if scanned else "empty")
                if scanned:
                    self._remedies[f"no text layer; {exc.reason.partition('; ')[2]}"] += 1
        except ReadError as exc:
            yield exc
        except Exception as exc:  # noqa: BLE001 a reader of another package may raise anything
            problem = f"the reader failed ({type(exc).__name__}: {exc})"
            yield ReadError(path.as_posix(), problem[:MOST_REASON])

    def _named(self, document: Document, path: str) -> Document | ReadError:
        """The document of a file, with its `path` below the folder, and the id that is asked for.

        Only code, whose citations show it, needs the path.
        """
        if document.kind == CODE and document.source_ref is None:
            metadata = {"path": path, **document.metadata}
            document = document.model_copy(update={"metadata": metadata})
        options = self.options
        if options.id_from is None or (document.kind == ROW and options.columns.id):
            return document
        chosen = "#".join(filter(None, (path, document.source_ref)))
        if options.id_from != "path":
            key = options.id_from.partition(":")[2]
            chosen = str(document.metadata.get(key) or "")
        if not chosen:
            problem = f"no {key} in its front matter for the id; add it, or take ids from path"
            return ReadError(document.source, problem)
        other = self.source_by_id.get(chosen, document.source)
        if other != document.source and os.path.exists(other):  # noqa: PTH110 False for any text
            problem = f"its id {chosen!r} is that of {other}; give one of them another collection"
            return ReadError(document.source, problem)
        self.source_by_id[chosen] = document.source
        return document.model_copy(update={"id": chosen})

    def _read(self, name: str, source: Source) -> Results:
        """Yield documents and errors; pages without text are noted, the others were read."""
        isolated = name in ISOLATED and READERS.is_builtin(name)
        read = partial(self._process.read, name) if isolated else READERS.get(name)().read
        with native_panics("the reader"):
            for result in read(source, options=self.options):
                if isinstance(result, errors.NoTextLayerError):
                    self._notes.append(str(result))
                else:
                    yield result


def _nothing_to_read(folder: Path, skipped: Skipped) -> ReadError:
    reason = "no files to read in this folder"
    if skipped.total:
        reason += f" ({skipped})"
    if any(file.reason not in UNREADABLE for file in skipped.files):
        reason += "; check include and exclude, or read everything"
    return ReadError(folder.as_posix(), reason)


def check_path(path: str | Path, *, for_a_text: str = "pass Document(text=...)") -> None:
    """Raise ReadError if a path is empty, or neither a file nor a folder; addresses are not opened.

    `for_a_text` is what to do with a text given in place of a path.
    """
    if path == "":  # as a path it would be the current folder
        raise ReadError('""', "an empty path; pass . for the current folder")
    if is_web_address(path) or os.path.isdir(path):  # noqa: PTH112 False for any text
        return
    try:
        Source.of_path(path)
    except ReadError as exc:
        label = str(path) if len(str(path)) <= MOST_SHOWN else f"{str(path)[:MOST_SHOWN]}..."
        missing = isinstance(path, str) and not exc.reason.startswith("not a regular")
        remedy = f"; to add a text, {for_a_text}" if missing else ""
        raise ReadError(label, f"{exc.reason}{remedy}") from exc
