"""Words that are names of one thing: error codes, versions, paths, addresses, names in code."""

from __future__ import annotations

import re
from functools import lru_cache

from lagotto.retrieval.query.operands import QUOTED
from lagotto.terms.words import UNSPACED

LONGEST = 256
"""The longest identifier, in characters; nobody types longer ones."""

UPPER = "A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я"
LOWER = "a-zß-öø-ÿα-ωа-џ"
LETTER = r"[^\W\d_]"
SMALL = rf"(?:(?![{UPPER}]){LETTER})"
HYPHEN = "[-\u2010\u2011]"

SHAPES = {
    "an underscore inside": r"[^\W_]_+[^\W_]",
    "a digit behind a letter": rf"{LETTER}\d",
    "capitals, a hyphen and a number": (
        rf"(?<!\w)(?:(?:{SMALL}*+[{UPPER}]){{2}}{LETTER}*+|[{UPPER}][{LOWER}]?){HYPHEN}\d"
    ),
    "letters and several numbers": rf"^{LETTER}+(?:{HYPHEN}\d+){{2,}}$",
    "camel case": (
        rf"^[{LOWER}]{{2}}[^\W_]*[{UPPER}](?!s$)[{LOWER}]|^(?:[{UPPER}][{LOWER}]+){{3,}}$"
    ),
    "dots between names": (
        rf"^(?!.*\b{LETTER}+\.[{UPPER}][{LOWER}]+$)"
        rf"(?:.*/)?{LETTER}\w+(?:\.{LETTER}\w+)+(?:\(\))?$"
    ),
    "a path": r"^(?:~|\.{1,2})?/\.?\w{2}|\w:?\\\w",
    "an address": r"\w://\w|\w@\w|^@\w{2}",
    "colons between names": rf"\w::\w|^{LETTER}+:\w+:\w",
    "a call": r"\w\(\)$",
    "an option": rf"^--{LETTER}{{2}}",
    "an IP address": r"^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$",
}
"""The shapes of identifiers, in the order in which they are tried.

No hyphenated words (well-known), numbers, years, ordinals (19th), measures (10km, 24-hour), and
no abbreviations (e.g., U.S.).
"""

_SHAPES = {reason: re.compile(pattern) for reason, pattern in SHAPES.items()}
_GAP = re.compile(rf"[\s,;|\"{UNSPACED}]+")
_BEFORE = "'`‘’“”„«»¿¡()[]{}<>*"
_BEHIND = "'`‘’“”„«»!?.:…([]{}<>*"
_ENDING = re.compile(
    rf"['’]s?$|(?<=\d){HYPHEN}(?:[{LOWER}]+(?:ed|ing)|(?:in)?dependent|deficient|like|free|positive"
    r"|negative|specific|type|style|compatible)$"
)
"""Endings that do not belong to an identifier: ERR_4012's, TDP-43-induced."""


def find_identifiers(query: str) -> list[tuple[str, str]]:
    """The distinct identifiers outside quotations in order, each with its shape."""
    return list(_found(query))


@lru_cache(maxsize=64)  # asked for twice in a search, for the type and for the exact leg
def _found(query: str) -> tuple[tuple[str, str], ...]:
    bare = QUOTED.sub(" ", query)
    words = dict.fromkeys(_trimmed(word) for word in _GAP.split(bare) if len(word) <= LONGEST)
    return tuple((word, reason) for word in words if (reason := _shape(word)))


def _trimmed(word: str) -> str:
    """The word without the punctuation around; the parentheses of a call stay."""
    bare = _ENDING.sub("", word.lstrip(_BEFORE).rstrip(_BEHIND))
    name, call, behind = bare.partition("()")
    return name + call if call and not behind.strip(")") else bare.rstrip(")" + _BEHIND)


def _shape(word: str) -> str | None:
    return next((reason for reason, shape in _SHAPES.items() if shape.search(word)), None)
