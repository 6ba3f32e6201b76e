"""Plain text in any encoding."""

from __future__ import annotations

from collections.abc import Iterator

from lagotto.documents import Document
from lagotto.errors import ReadError
from lagotto.readers.base import ReadOptions, Source
from lagotto.readers.decode import decode
from lagotto.readers.draft import Draft
from lagotto.readers.formats import SUFFIXES


class TextReader:
    """Reads the whole source as one text without structure."""

    kind = "text"
    suffixes = SUFFIXES["text"]

    def read(self, source: Source, *, options: ReadOptions) -> Iterator[Document | ReadError]:
        text = decode(source.read(limit=options.max_bytes))
        yield Draft(kind=self.kind, text=text).document(source, options=options)
