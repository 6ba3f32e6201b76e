from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.readers.decode import decode, detect_encoding, looks_binary

UNICODE = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@pytest.mark.parametrize("encoding", UNICODE)
@given(text=ANY_TEXT)
def test_marked_or_utf8_text_comes_back(encoding: str, text: str) -> None:
    text = text.removeprefix("\ufeff")  # a mark at the start is a mark, not text
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@given(text=st.text("abcdefgh éü.,\n", min_size=4))
def test_utf16_without_a_mark(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_line_ends_become_lf(text: str) -> None:
    decoded = decode(text.encode("utf-8-sig"))
    assert decoded == "\n".join(text.replace("\r\n", "\n").split("\r"))


@given(st.binary(max_size=400))
def test_never_fails(data: bytes) -> None:
    assert isinstance(decode(data), str)
    assert looks_binary(data) in (True, False)


LEGACY = [
    ("café", "latin-1"),
    ("naïve", "cp1252"),
    ("Grüße aus Köln", "latin-1"),
    ("El niño comió una manzana en la mañana", "cp1252"),
    ("Le café était déjà fermé à Noël, “hélas” – dommage.", "cp1252"),
    ("Ole, Ångström, smörgåsbord och räksmörgås är goda ord", "latin-1"),
    ("The price is £5 and the naïve résumé", "cp1252"),
    ("It’s a “test” — nothing more", "cp1252"),
    ("a,b\nMüller,5\nJosé,7\n", "cp1252"),
    ("Zażółć gęślą jaźń, to jest dłuższy tekst po polsku.", "cp1250"),
    ("Zażółć gęślą jaźń, to jest dłuższy tekst po polsku.", "iso8859-2"),
    ("Kočka spí na stole a je šťastná.", "cp1250"),
    ("Привет, как дела? Это текст на русском языке.", "cp1251"),
    ("Привет, как дела? Это текст на русском языке.", "koi8-r"),
    ("Η γάτα κοιμάται στο τραπέζι.", "cp1253"),
    ("Kedi masanın üzerinde uyuyor, çünkü şimdi gece.", "cp1254"),
    ("החתול ישן על השולחן.", "cp1255"),
    ("القطة نائمة على الطاولة.", "cp1256"),
    ("猫は机の上で寝ています。", "shift_jis"),
    ("猫は机の上で寝ています。", "euc_jp"),
    ("猫在桌子上睡觉。他们很高兴。", "gb18030"),
    ("貓在桌子上睡覺。他們很高興。", "big5"),
    ("고양이가 책상 위에서 자고 있다.", "cp949"),
]


@pytest.mark.parametrize(("text", "encoding"), LEGACY)
def test_old_encodings_are_recognised_also_in_long_texts(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text
    lines = "\n".join([text] * 200)
    assert len(text) <= 10 or decode(lines.encode(encoding)) == lines


def test_one_broken_byte_does_not_change_the_encoding() -> None:
    data = "Käse, Öl und Brötchen für fünf Jäger".encode()
    assert decode(data + b"\xff") == "Käse, Öl und Brötchen für fünf Jäger\ufffd"


def test_first_foreign_byte_far_behind_the_start() -> None:
    text = "plain words only\n" * 100_000 + "Grüße aus Köln, sagte die Frau\n"
    assert decode(text.encode("latin-1")) == text


def test_declared_encoding_counts_unless_the_text_is_utf8() -> None:
    assert decode("ďábel".encode("cp1250"), declared="windows-1250") == "ďábel"
    assert decode("ďábel".encode(), declared="windows-1250") == "ďábel"
    assert decode("“a” é".encode("cp1252"), declared="iso-8859-1") == "“a” é"


@pytest.mark.parametrize(
    "declared", ["", "hex", "rot13", "unicode_escape", "no such", "\0", "utf-7"]
)
def test_unusable_declarations_are_ignored(declared: str) -> None:
    data = "Grüße aus Köln".encode("latin-1")
    assert decode(data, declared=declared) == "Grüße aus Köln"


def test_detection_reads_the_whole_stream() -> None:
    assert detect_encoding(io.BytesIO(b"a" * 3_000_000 + "é".encode("latin-1"))) == "cp1252"
    assert detect_encoding(io.BytesIO(b"a" * 3_000_000 + "é".encode())) == "utf-8"


def test_binary_and_text() -> None:
    assert looks_binary(random.Random(1).randbytes(4096))
    assert looks_binary(b"\x7fELF\x02\x01\x01" + bytes(60))
    assert looks_binary(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\x06\0\0\0")
    assert not looks_binary("Zwei\0Nullen\0 in viel gewöhnlichem Text".encode())
    assert not looks_binary("text in UTF-16".encode("utf-16-le"))
    assert not looks_binary("Grüße".encode("latin-1"))
    assert not looks_binary(b"")
