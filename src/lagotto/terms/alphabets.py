"""Which alphabets a text is written in, by the names that Unicode gives letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

SAMPLE = 1_000
"""Characters at the start of a text that decide."""


def alphabet_share(text: str, alphabets: Sequence[str]) -> float:
    """The share of letters in `text` that belong to `alphabets`, such as LATIN or CYRILLIC.

    1.0 if no alphabets are given or if the text has no letters.
    """
    names = [unicodedata.name(letter, "") for letter in text[:SAMPLE] if letter.isalpha()]
    if not alphabets or not names:
        return 1.0
    known = sum(name.startswith(tuple(alphabets)) for name in names)
    return known / len(names)
