"""Contract tests for chunkers: inherit from ChunkerContract and set its attributes."""

from __future__ import annotations

from itertools import groupby, pairwise

from hypothesis import given

from lagotto._internal.tokens import Tokenizer
from lagotto.chunkers.base import Chunker
from lagotto.documents import Chunk, Document, Span, common_path
from lagotto.testing.strategies import SLOW, documents, texts


class ChunkerContract:
    """Tests of the Chunker protocol. A subclass sets the four attributes."""

    chunker: Chunker
    tokenizer: Tokenizer
    size: int
    overlap: int

    @SLOW
    @given(documents())
    def test_promises_hold_for_structured_documents(self, document: Document) -> None:
        self.check(document)

    @SLOW
    @given(texts())
    def test_promises_hold_for_any_text(self, text: str) -> None:
        self.check(Document(text=text))

    def test_promises_hold_for_awkward_texts(self) -> None:
        for text in ("", " \n ", "x", "a" * 5000, " " * 5000 + "x", "\ufffd" * 999, "字" * 3000):
            self.check(Document(text=text))

    def test_other_content_gives_other_ids(self) -> None:
        one, two = (
            {chunk.id for chunk in self.chunker.chunk(Document(id="x", text=text))}
            for text in ("Same start, one end.", "Same start, two ends.")
        )
        assert one
        assert not one & two

    def check(self, document: Document) -> None:
        """Check the contract for one document."""
        chunks = self.chunker.chunk(document)
        assert chunks == self.chunker.chunk(document)
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        self._check_each(document, chunks)
        for level in ("flat", "parent", "child"):
            self._check_order(document, [chunk for chunk in chunks if chunk.level == level])
        self._check_coverage(document, chunks)
        self._check_families(chunks)

    def _check_each(self, document: Document, chunks: list[Chunk]) -> None:
        counts = self.tokenizer.count([chunk.text for chunk in chunks])
        for chunk, count in zip(chunks, counts, strict=True):
            assert document.text[chunk.start : chunk.end] == chunk.text
            assert chunk.text.strip()
            assert chunk.token_count == count
            assert count <= self.size or len(chunk.text) == 1
            assert (chunk.document_id, chunk.collection) == (document.id, document.collection)
            assert chunk.chunker_id == self.chunker.id
            assert chunk.pages == _pages(document, chunk)
            paths = _heading_paths(document, chunk)
            named = [section.heading_path for section in chunk.sections] or [chunk.heading_path]
            assert chunk.heading_path in (paths[0], common_path(named))
            following = iter(paths)
            assert all(path in following for path in named)

    def _check_order(self, document: Document, chunks: list[Chunk]) -> None:
        assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
        for before, after in pairwise(chunks):
            assert before.start < after.start
            assert before.end < after.end
            shared = document.text[after.start : before.end]
            assert self.tokenizer.count([shared])[0] <= self.overlap

    def _check_coverage(self, document: Document, chunks: list[Chunk]) -> None:
        covered = 0
        for chunk in (chunk for chunk in chunks if chunk.level != "parent"):
            assert not document.text[covered : chunk.start].strip()
            covered = chunk.end
        assert not document.text[covered:].strip()

    def _check_families(self, chunks: list[Chunk]) -> None:
        parents = {chunk.id: chunk for chunk in chunks if chunk.level == "parent"}
        for chunk in chunks:
            assert (chunk.parent_id is not None) == (chunk.level == "child")
            if chunk.parent_id is not None:
                parent = parents[chunk.parent_id]
                assert parent.start <= chunk.start
                assert chunk.end <= parent.end


def _visible(chunk: Chunk) -> Span:
    blank = len(chunk.text) - len(chunk.text.lstrip())
    return Span(chunk.start + blank, chunk.start + len(chunk.text.rstrip()))


def _pages(document: Document, chunk: Chunk) -> tuple[int, int] | None:
    start, end = _visible(chunk)
    touched = [
        page.number for page in document.pages if max(page.start, start) < min(page.end, end)
    ]
    return (touched[0], touched[-1]) if touched else None


def _heading_paths(document: Document, chunk: Chunk) -> list[tuple[str, ...]]:
    """The titles above each visible character, in order, the same ones in a row once."""
    paths = [
        tuple(item.title for item in document.headings if item.start <= offset < item.end)
        for offset in range(*_visible(chunk))
        if not document.text[offset].isspace()
    ]
    return [path for path, _ in groupby(paths)]
