"""Rich Text Format: its text, without fonts, styles, pictures and other data."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress

from lagotto.errors import CorruptSourceError
from lagotto.readers.base import Draft, Source
from lagotto.readers.formats import RTF_MAGIC, draft_reader

_BLANK_LINES = re.compile(r"\n{3,}")
_TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})?[ ]?|((?:\\'[0-9a-f]{2}[\r\n]*+)++)"
    r"|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.IGNORECASE,
)
_NO_TEXT = """
fonttbl colortbl stylesheet info pict object header footer headerl headerr footerl footerr listtable
listoverridetable themedata datastore generator xmlnstbl fldinst
"""
_DATA = frozenset(_NO_TEXT.split())
"""Groups that hold no text of the document."""
_BREAKS = {"par": "\n\n", "sect": "\n\n", "page": "\n\n", "line": "\n", "row": "\n", "cell": " | "}
_CHARACTERS = {
    "tab": "\t", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
_SYMBOLS = {"~": "\xa0", "_": "-", "\n": "\n\n", "\r": "\n\n", "\\": "\\", "{": "{", "}": "}"}


@draft_reader("rtf")
def read_rtf(source: Source, limit: int) -> Draft:
    """Read an RTF file as plain text with its paragraphs."""
    data = source.read(limit=limit)
    if data.strip() and not data.lstrip().startswith(RTF_MAGIC):
        raise CorruptSourceError(source.label, "not an RTF file; give it another suffix")
    return Draft(rtf_text(data))


def rtf_text(data: bytes) -> str:
    text = "".join(_pieces(data.decode("latin-1"))).encode("utf-16", "surrogatepass")
    lines = (line.strip(" ") for line in text.decode("utf-16", "replace").split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _pieces(source: str) -> Iterator[str]:
    """Follow groups: whether they are data, and how many characters stand in for one of Unicode."""
    encoding, hidden, replaced = "cp1252", False, 1
    outer: list[tuple[bool, int]] = []
    skip = 0
    for word, number, codes, symbol, brace, text in (m.groups() for m in _TOKEN.finditer(source)):
        if brace == "{":
            outer.append((hidden, replaced))
        elif brace and outer:
            hidden, replaced = outer.pop()
        elif symbol == "*" or word in _DATA:
            hidden = True
        elif word == "ansicpg":
            with suppress(LookupError):
                encoding = codecs.lookup(f"cp{number}").name
        elif word == "uc":
            replaced = int(number or 1)
        elif hidden:
            continue
        elif word == "u" and number:
            skip = replaced
            yield chr(int(number) % 0x10000)
        elif codes:  # together: two of them may be one character
            encoded = bytes.fromhex(codes.replace("\\'", ""))[skip:]
            skip = max(0, skip - codes.count("'"))
            yield encoded.decode(encoding, "replace")
        elif text:
            yield text[skip:]
            skip = max(0, skip - len(text))
        elif word:
            yield _BREAKS.get(word) or _CHARACTERS.get(word, "")
        elif symbol:
            yield _SYMBOLS.get(symbol, "")
