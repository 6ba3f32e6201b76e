"""Titles of PDF files: what programs leave in the metadata is often not one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lagotto.documents import Heading

_PROGRAM = re.compile(
    r"(?:microsoft|ms|libreoffice|openoffice|adobe|corel)\b.*? - |powerpoint presentation$"
    r"|about:|https?:|\(?(?:anonymous|unspecified|unknown|none|null)\)?$",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:untitled|unnamed|no title|title|document|new document|doc|print|printing|layout|slide"
    r"|presentation|book|sheet|workbook|scan|scanned document|image|img|file|temp|tmp|test"
    r"|cover|cover page|title page|table of contents|contents|index|final|draft|form)[\s_#-]*\d*$",
    re.IGNORECASE,
)
_OF_A_FILE = re.compile(
    r"\A.*\.(?:docx?|docm|rtf|odt|pptx?|xlsx?|indd|qxp|qxd|pub|tex|dvi|ps|eps|pdf|html?|txt|md"
    r"|wpd)$",
    re.IGNORECASE,
)
_HAS_A_LONG_NUMBER = re.compile(r"\S*\d{6}\S*").fullmatch
"""One word, such as `aapl-20230930`: the name of a file, or of an entry in a register."""
_IS_HEX = re.compile(r"[0-9a-f-]{16,}", re.IGNORECASE).fullmatch
_LETTERS = re.compile(r"[^\W\d_]{2}")


def is_junk(title: str) -> bool:
    """Whether a title says nothing about the content: a number, a file name, a placeholder."""
    text = title.strip()
    return (
        not _LETTERS.search(text)
        or bool(_PROGRAM.match(text) or _PLACEHOLDER.match(text) or _OF_A_FILE.match(text))
        or _HAS_A_LONG_NUMBER(text) is not None
        or (_IS_HEX(text) is not None and any(map(str.isdigit, text)))
    )


def choose_title(written: str | None, headings: Sequence[Heading], stem: str | None) -> str | None:
    """The title of a PDF: the one in its metadata if it is one, a heading above all, the file name.

    The first of several chapters is only the title of the file if nothing else is left.
    """
    tops = [heading.title for heading in headings if heading.level == 1]
    sole = tops[0] if len(tops) == 1 else None
    candidates = (written, sole, stem, *tops[:1])
    return next((title for title in candidates if title and not is_junk(title)), stem)
