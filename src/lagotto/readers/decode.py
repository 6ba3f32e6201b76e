"""Decode bytes to text and detect their encoding.

In order: a byte order mark, UTF-16 recognised by its zero bytes, strict UTF-8, the encoding that
the file declares. Otherwise it is a legacy 8-bit or double-byte encoding: the likely ones are
tried, and the one with the most readable result wins.
"""

from __future__ import annotations

import codecs
import io
import re
from typing import BinaryIO

from lagotto.readers.language import confidence

BLOCK = 1 << 20
SAMPLE = 4096

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark starts with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_LEGACY = """
cp1252 cp1250 iso8859-2 cp1251 koi8-r cp1253 cp1254 cp1255 cp1256 cp874 cp932 euc_jp gb18030 big5
cp949
"""
LEGACY = _LEGACY.split()
"""Most common first; a later one must be clearly better to win."""

SIGNS = frozenset("‘’“”„–—…•®™«»¿¡·²³。、「」！？，：")
LOOSE_SIGNS = frozenset("£€¥§©°½¼¾×÷±µ")
"""Signs that are common in text, but not directly after a letter."""

SAFE_DECLARED = re.compile(r"utf-(8|16|32)|iso8859|iso2022|cp\d|koi8|gb|big5|euc|shift|mac|tis")


def decode(data: bytes, *, declared: str | None = None) -> str:
    """Decode `data` with LF line ends; never fails, undecodable bytes become U+FFFD."""
    encoding = detect_encoding(io.BytesIO(data), declared=declared)
    return data.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def detect_encoding(stream: BinaryIO, *, declared: str | None = None) -> str:
    """Detect the encoding of `stream`, which is read block by block."""
    block = stream.read(BLOCK)
    if marked := marked_encoding(block):
        return marked
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block:
            decoder.decode(block)
            block = stream.read(BLOCK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as exc:
        data, position = bytes(exc.object), exc.start
        earliest = max(0, position - SAMPLE)
        start = data.rfind(b"\n", earliest, position) + 1 or earliest  # not inside a character
        sample = data[start : start + 2 * SAMPLE]
        return "utf-8" if _nearly_utf8(sample) else _usable(declared) or _most_readable(sample)
    return "utf-8"


def marked_encoding(head: bytes) -> str | None:
    """The encoding shown by the first bytes: a byte order mark, or the zero bytes of UTF-16."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[:SAMPLE:2], head[1:SAMPLE:2]
    if odd.count(0) > 0.4 * len(odd) and even.count(0) <= 0.05 * len(even):
        return "utf-16-le"
    if even.count(0) > 0.4 * len(even) and odd.count(0) <= 0.05 * len(odd):
        return "utf-16-be"
    return None


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text in any encoding."""
    if marked_encoding(head):
        return False
    controls = sum(head.count(byte) for byte in (*range(1, 7), *range(14, 27), *range(28, 32)))
    zeros = head.count(0)
    return controls + zeros > 0.1 * len(head) or (zeros > 0 and not _nearly_utf8(head))


def _usable(declared: str | None) -> str | None:
    try:
        name = codecs.lookup(declared or "").name
    except (LookupError, ValueError):
        return None
    if name == "iso8859-1":
        return "cp1252"  # as browsers do
    return name if SAFE_DECLARED.match(name) else None


def _nearly_utf8(sample: bytes) -> bool:
    text = sample.decode("utf-8", errors="replace")
    broken = text.count("\ufffd")
    return broken <= 0.25 * (sum(char > "\x7f" for char in text) - broken)


def _most_readable(sample: bytes) -> str:
    best, best_score = "latin-1", 0.0
    for encoding in LEGACY:
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        # the share of other characters than ASCII that are unusual after the one before them
        foreign = [index for index, char in enumerate(text) if char > "\x7f"]
        odd = sum(_is_odd(text[index - 1 : index], text[index]) for index in foreign)
        score = 1 + confidence(text) - odd / max(1, len(foreign))
        if score > best_score + 0.02:
            best, best_score = encoding, score
    return best


def _is_odd(before: str, char: str) -> bool:
    if char in LOOSE_SIGNS:
        return before.isalpha()
    if not char.isalpha():
        return char not in SIGNS
    latin = char < "\u0370"
    return before.isalpha() and (before < "\u0370") != latin and before < "\u3000"
