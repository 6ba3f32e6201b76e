"""Any bytes at all: every reader gives documents with right spans, or a ReadError."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.errors import ReadError
from lagotto.readers import READERS, ReadOptions, Source, read_bytes
from lagotto.readers.formats import SUFFIXES
from lagotto.testing.readers import check_structure
from tests.readers.test_contract import SAMPLES


def read_with(name: str, data: bytes) -> None:
    source = Source(name=f"x{min(SUFFIXES[name])}", data=data)
    with suppress(ReadError):
        for result in READERS.get(name)().read(source, options=ReadOptions()):
            if isinstance(result, Document):
                check_structure(result)
            else:
                assert isinstance(result, ReadError)


@pytest.mark.parametrize("name", sorted(SUFFIXES))
@given(data=st.binary(max_size=300))
def test_any_bytes(name: str, data: bytes) -> None:
    read_with(name, data)


@pytest.mark.parametrize("name", sorted(SUFFIXES))
@given(text=st.text(max_size=100))
def test_any_text(name: str, text: str) -> None:
    read_with(name, text.encode(errors="replace"))


@pytest.mark.parametrize("name", sorted(SUFFIXES))
@given(data=st.data())
def test_changed_samples(name: str, data: st.DataObject) -> None:
    sample = bytearray(SAMPLES[name])
    places = st.integers(0, len(sample) - 1)
    for _ in range(data.draw(st.integers(1, 8))):
        sample[data.draw(places)] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(sample)), places))
    read_with(name, bytes(sample[:cut]))


@given(data=st.binary(max_size=200), suffix=st.sampled_from(["", ".pdf", ".docx", ".txt", ".bin"]))
def test_sniffing_any_bytes(data: bytes, suffix: str) -> None:
    with suppress(ReadError):
        for document in read_bytes(data, name=f"x{suffix}"):
            check_structure(document)
