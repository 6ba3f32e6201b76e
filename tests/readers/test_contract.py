"""Every reader keeps the contract."""

from __future__ import annotations

import json

import pytest

from lagotto.readers import READERS, Reader
from lagotto.readers.formats import SUFFIXES
from lagotto.testing.readers import ReaderContract
from tests.readers import mail_samples, office_samples, samples

SAMPLES = {
    "text": "Cats sleep a lot.\nReally.\n".encode("utf-16"),
    "markdown": samples.MARKDOWN.encode(),
    "html": samples.HTML.encode(),
    "pdf": samples.PDF,
    "docx": samples.make_docx(),
    "jsonl": samples.JSONL.encode(),
    "csv": samples.CSV.encode(),
    "code": samples.PYTHON.encode(),
    "json": b'[{"text": "One record."}, {"text": "Another record."}]',
    "rtf": rb"{\rtf1\ansi Rich text.\par And more of it.}",
    "rst": samples.RST.encode(),
    "notebook": json.dumps(samples.NOTEBOOK).encode(),
    "subtitles": samples.SRT.encode(),
    "pptx": office_samples.make_pptx(),
    "xlsx": office_samples.make_xlsx(),
    "odt": office_samples.make_odt(),
    "epub": office_samples.make_epub(),
    "mail": mail_samples.make_mail(),
    "mailbox": mail_samples.make_mailbox(),
}


@pytest.mark.parametrize("name", sorted(SUFFIXES))
class TestReaders(ReaderContract):
    @pytest.fixture
    def reader(self, name: str) -> Reader:
        return READERS.get(name)()

    @pytest.fixture
    def sample(self, name: str) -> bytes:
        return SAMPLES[name]

    def test_table_of_suffixes_is_true(self, reader: Reader, name: str) -> None:
        assert reader.suffixes == SUFFIXES[name]


def test_no_reader_is_left_out_and_no_suffix_is_shared() -> None:
    assert sorted(SAMPLES) == sorted(SUFFIXES)
    assert set(SUFFIXES) <= set(READERS.names())
    every = [suffix for suffixes in SUFFIXES.values() for suffix in suffixes]
    assert len(every) == len(set(every))
