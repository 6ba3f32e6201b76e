"""Contract tests for readers: inherit and provide the fixtures `reader` and `sample`."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from lagotto.documents import Document, Region, Span
from lagotto.errors import EmptySourceError, ReadError, SourceTooLargeError
from lagotto.readers import Reader, ReadOptions, Source


def check_structure(document: Document) -> None:
    """Check the spans of a document.

    All lie within the text; pages and blocks don't overlap; parts lie inside their block, in
    order; of two headings that overlap, one holds the other and is of a higher level.
    """
    _within(document.text, document.pages, document.headings, document.blocks)
    _apart(document.pages)
    _apart(document.blocks)
    for block in document.blocks:
        _within(document.text, block.parts)
        _apart(block.parts)
        assert all(block.start <= part.start and part.end <= block.end for part in block.parts)
    around: list[tuple[int, int]] = []
    for heading in document.headings:
        while around and around[-1][0] <= heading.start:
            around.pop()
        assert not around or heading.end <= around[-1][0], heading
        assert not around or heading.level > around[-1][1], heading
        around.append((heading.end, heading.level))


def _within(text: str, *families: tuple[Region | Span, ...]) -> None:
    for regions in families:
        for region in regions:
            assert 0 <= region.start <= region.end <= len(text), region


def _apart(regions: tuple[Region | Span, ...]) -> None:
    for one, other in pairwise(regions):
        assert one.end <= other.start, (one, other)


class ReaderContract:
    """Tests of the Reader protocol. A subclass provides the two fixtures."""

    @pytest.fixture
    def reader(self) -> Reader:
        """The reader to test."""
        raise NotImplementedError

    @pytest.fixture
    def sample(self) -> bytes:
        """A valid source of its format, with at least one document and more than 20 bytes."""
        raise NotImplementedError

    def _read(self, reader: Reader, data: bytes, **options: object) -> list[Document]:
        source = Source(name=f"folder/sample{min(reader.suffixes)}", data=data)
        results = list(reader.read(source, options=ReadOptions.model_validate(options)))
        return [result for result in results if isinstance(result, Document)]

    def test_says_what_it_is(self, reader: Reader) -> None:
        assert reader.kind
        assert reader.suffixes
        assert all(name.startswith(".") and name == name.lower() for name in reader.suffixes)

    def test_sample_gives_documents(self, reader: Reader, sample: bytes) -> None:
        documents = self._read(reader, sample)
        assert documents
        assert documents[0].kind == reader.kind
        for document in documents:
            assert document.source == f"folder/sample{min(reader.suffixes)}"
            assert document.text.strip()
            assert "\r" not in document.text
            check_structure(document)

    def test_ids_are_unique(self, reader: Reader, sample: bytes) -> None:
        ids = [document.id for document in self._read(reader, sample)]
        assert len(ids) == len(set(ids))

    def test_same_bytes_same_documents(self, reader: Reader, sample: bytes) -> None:
        assert self._read(reader, sample) == self._read(reader, sample)

    def test_options_win(self, reader: Reader, sample: bytes) -> None:
        metadata = {"author": "the caller", "shelf": 7}
        documents = self._read(reader, sample, collection="c", language="eo", metadata=metadata)
        for document in documents:
            assert document.collection == "c"
            assert document.language == "eo"
            assert metadata.items() <= document.metadata.items()

    def test_nothing_in_it(self, reader: Reader) -> None:
        with pytest.raises(EmptySourceError):
            self._read(reader, b"")

    def test_limit_is_kept(self, reader: Reader, sample: bytes) -> None:
        with pytest.raises(SourceTooLargeError):
            self._read(reader, sample, max_bytes=5)

    def test_damage_is_a_read_error(self, reader: Reader, sample: bytes) -> None:
        for seed in range(60):
            data = _damaged(sample, random.Random(seed))
            try:
                documents = self._read(reader, data)
            except ReadError:
                continue
            for document in documents:
                check_structure(document)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """`data` truncated, with bytes changed, or with a part removed."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randrange(1, 1 + len(data) // 4))
    match chance.randrange(3):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + chance.randbytes(end - start) + data[end:]
        case _:
            return data[:start] + data[end:]
