"""Reading one thing: a file, bytes, or a string."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lagotto.documents import Document, storable
from lagotto.readers.base import Reader, ReadOptions, Source
from lagotto.readers.formats import READERS, Formats


def read_path(path: str | Path, *, options: ReadOptions | None = None) -> Iterator[Document]:
    """The documents in a file; raises the first ReadError it meets, also for a single bad row.

    `Document.source` is the absolute path, so reading the file again gives the same ids. To go on
    after an error, or to read folders, use `load`.
    """
    source = Source.of_path(path)
    return _strict(Formats().reader(source), source, options)


def read_bytes(
    data: bytes, *, name: str = "", options: ReadOptions | None = None
) -> Iterator[Document]:
    """The documents in `data`; its format follows from `name`, if it has a suffix, and content."""
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
    """The documents in a string; `kind` names a reader: text, markdown, html, csv, ...

    Without a `source`, a document's id follows from its content.
    """
    # The byte order mark wins over any encoding that the text declares for itself.
    data = storable(text).encode("utf-8-sig")
    return _strict(READERS.get(kind)(), Source(name=source, data=data, title=title), options)


def _strict(reader: Reader, source: Source, options: ReadOptions | None) -> Iterator[Document]:
    for result in reader.read(source, options=options or ReadOptions()):
        if not isinstance(result, Document):
            raise result
        yield result
