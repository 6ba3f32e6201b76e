from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.errors import CorruptSourceError, UnsupportedFormatError
from lagotto.readers.rtf import rtf_text
from tests.readers.samples import only

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
RTF = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator Word;}\f0 Hello \b world\b0 ,"
    rb" caf\'e9 for \u8364?5.\par Second \{one\}\line with a face \u-10179?\u-8704?\par}"
)


def test_text_without_its_controls() -> None:
    assert rtf_text(RTF) == "Hello world, café for €5.\n\nSecond {one}\nwith a face 😀"
    document = only(RTF, "letter.rtf")
    assert (document.kind, document.title) == ("rtf", "letter")
    assert only(RTF, "letter.doc").kind == "rtf"  # as many .doc files are


def test_two_bytes_may_be_one_character() -> None:
    japanese = "テスト".encode("cp932")
    codes = b"".join(b"\\'%02x" % byte for byte in japanese)
    assert rtf_text(b"{\\rtf1\\ansicpg932 %s}" % codes) == "テスト"
    written = b"{\\rtf1\\ansicpg932\\uc2 \\u12486%s}" % codes  # the first of them stands in for it
    assert rtf_text(written) == "テスト"
    assert rtf_text(b"{\\rtf1\\ansicpg932 %s\n%s}" % (codes[:4], codes[4:])) == "テスト"


def test_what_is_no_rtf() -> None:
    with pytest.raises(CorruptSourceError, match="not an RTF file"):
        only(b"plain text", "letter.rtf")


@given(st.binary(max_size=200))
def test_any_bytes(written: bytes) -> None:
    rtf_text(b"{\\rtf1 " + written).encode()  # no lone surrogates


@pytest.mark.parametrize(("name", "advice"), [("a.doc", r"\.docx"), ("a.msg", r"save it as \.eml")])
def test_formats_without_a_reader_name_the_remedy(name: str, advice: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=advice):
        only(OLE, name)
