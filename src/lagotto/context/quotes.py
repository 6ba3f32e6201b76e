"""Quotations: finding them in an answer, and finding them again in a source.

Case, white space, and the shape of quotation marks, apostrophes and dashes don't matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lagotto.documents import Span

_QUOTED = re.compile(
    r'(?<!\w)"(?=\S)(?P<straight>[^"\n]+)(?<=\S)"(?!\w)'
    "|“(?P<curly>[^“”]+)”|„(?P<low>[^„“”]+)[“”]|«(?P<angle>[^«»]+)»|「(?P<corner>[^「」]+)」"
)
_SAME = {
    **dict.fromkeys("‘’‚‛“”„‟«»‹›「」`´′″'", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    "\u00ad": "",
}
_EDGES = " .,;:!?…\"'-"


def quotations(text: str) -> list[Span]:
    """Where the quoted words stand, without the marks around them."""
    found = []
    for match in _QUOTED.finditer(text):
        kind = match.lastgroup
        if kind and _folded(match[kind])[0].strip(_EDGES):
            found.append(Span(*match.span(kind)))
    return found


def locate(quote: str, text: str) -> Span | None:
    """Where `text` says what `quote` says, None if it doesn't.

    Punctuation at the ends of the quotation is the answer's own.
    """
    wanted = _folded(quote)[0].strip(_EDGES)
    folded, offsets = _folded(text)
    at = folded.find(wanted)
    if not wanted or at < 0:
        return None
    return Span(offsets[at], offsets[at + len(wanted) - 1] + 1)


def _folded(text: str) -> tuple[str, list[int]]:
    """The text with what doesn't matter made alike, and where each character of it came from."""
    pairs = list(_alike(text))
    return "".join(char for char, _ in pairs), [offset for _, offset in pairs]


def _alike(text: str) -> Iterator[tuple[str, int]]:
    after_space = False
    for offset, char in enumerate(text):
        if char.isspace():
            if not after_space:
                yield " ", offset
            after_space = True
            continue
        after_space = False
        for folded in _SAME.get(char, char.casefold()):
            yield folded, offset
