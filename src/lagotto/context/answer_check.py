"""Checking an answer against the pack it was written from: what it cites, and what it quotes.

Nothing here judges whether a claim follows from its source. It tells what can be told for sure:
which passages a sentence names, whether there are such passages, and whether quoted words stand
in them. In quotations case, white space, and the shape of quotation marks, apostrophes and dashes
don't matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from pydantic import Field

from lagotto.chunkers.boundaries import Boundaries
from lagotto.context.pack import ContextPack
from lagotto.context.passages import stitched
from lagotto.documents import Record, Span

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

_NUMBERS = r"\d{1,6}(?:\s{0,9}[-–]\s{0,9}\d{1,6})?"
_MARKER = re.compile(rf"\[({_NUMBERS}(?:\s{{0,9}}[,;]\s{{0,9}}{_NUMBERS})*)\]", re.ASCII)
_LEADING = re.compile(rf"[^\S\n]*+(?:{_MARKER.pattern}[^\S\n]*+)++", re.ASCII)
_SEPARATOR = re.compile("[,;]")
_DASH = re.compile("[-–]")
_WORD = re.compile(r"\w")


class Quote(Record):
    """Quoted words of an answer; `start` and `end` are offsets in the answer.

    `found_in` is the marker of the passage that holds them, `source` their span in its document;
    both are None if no passage that the sentence cites does. A sentence that cites nothing may
    quote from any of them.
    """

    text: str
    start: int
    end: int
    found_in: int | None = None
    source: tuple[int, int] | None = None


class Claim(Record):
    """A sentence of an answer, the markers it names, and what it quotes."""

    text: str
    start: int
    end: int
    markers: tuple[int, ...] = ()
    quotes: tuple[Quote, ...] = ()


class AnswerCheck(Record):
    """What an answer cites and quotes.

    `ok` if every marker stands for a passage and every quotation is where the answer says.
    Sentences that cite nothing are in `uncited`; whether they may is for the caller to say.
    """

    claims: tuple[Claim, ...] = ()
    unknown_markers: tuple[int, ...] = ()
    missing_quotes: tuple[Quote, ...] = ()
    ok: bool = Field(default_factory=lambda fields: _nothing_wrong(fields))

    @property
    def uncited(self) -> tuple[Claim, ...]:
        """The sentences without any marker."""
        return tuple(claim for claim in self.claims if not claim.markers)


def _nothing_wrong(fields: Mapping[str, object]) -> bool:
    return not fields["unknown_markers"] and not fields["missing_quotes"]


def check_answer(answer: str, *, pack: ContextPack) -> AnswerCheck:
    """Which sentences of `answer` cite and quote what, and what of it is not in the pack.

    Markers are [1], [2][3], [1, 2] and [1-3]; one behind the full stop belongs to the sentence
    before it.
    """
    sources = _sources(pack)
    quoted = quotations(answer)
    claims = tuple(_claim(answer, span, quoted, sources) for span in _sentences(answer, quoted))
    named = dict.fromkeys(_markers(answer, sources))
    return AnswerCheck(
        claims=claims,
        unknown_markers=tuple(marker for marker in named if marker not in sources),
        missing_quotes=tuple(
            quote for claim in claims for quote in claim.quotes if quote.found_in is None
        ),
    )


class FoldedText:
    """A text in the form in which quotations are compared with it, made once."""

    def __init__(self, text: str, *, start: int = 0) -> None:
        self._folded, self._offsets = _folded(text)
        self._start = start
        self._found: dict[str, Span | None] = {}

    def locate(self, quote: str) -> Span | None:
        """The span of the text that `quote` quotes, None if there is none."""
        wanted = _folded(quote)[0].strip(_EDGES)
        if wanted not in self._found:
            self._found[wanted] = self._find(wanted)
        return self._found[wanted]

    def _find(self, wanted: str) -> Span | None:
        at = self._folded.find(wanted)
        if not wanted or at < 0:
            return None
        last = self._offsets[at + len(wanted) - 1]
        return Span(self._start + self._offsets[at], self._start + last + 1)


def _sources(pack: ContextPack) -> dict[int, FoldedText]:
    """The passages by marker; offsets are those in their documents."""
    return {
        citation.marker: FoldedText(
            stitched(
                (chunk.start, chunk.text)
                for chunk in pack.selected_chunks
                if chunk.marker == citation.marker
            ),
            start=citation.start,
        )
        for citation in pack.citations
    }


def _sentences(answer: str, quoted: Iterable[Span]) -> list[Span]:
    """The sentences and lines that say something, with the markers that follow them.

    There is no cut inside a quotation, and headings claim nothing.
    """
    boundaries = Boundaries(answer)
    cuts = {int(offset) for kind in ("sentence", "line") for offset in boundaries.of(kind)}
    cuts = {_behind_markers(answer, cut) for cut in cuts}
    cuts -= {cut for quote in quoted for cut in range(quote.start, quote.end + 1)}
    sentences: list[Span] = []
    for start, end in pairwise(sorted(cuts | {0, len(answer)})):
        text = answer[start:end]
        visible_end = start + len(text.rstrip())
        if not _WORD.search(_MARKER.sub("", text)):
            if sentences and _MARKER.search(text):
                sentences[-1] = Span(sentences[-1].start, visible_end)
        elif not text.lstrip().startswith("#"):
            sentences.append(Span(end - len(text.lstrip()), visible_end))
    return sentences


def _behind_markers(answer: str, cut: int) -> int:
    """A cut in front of markers moves behind them, unless a line starts there."""
    before = cut
    while before and answer[before - 1].isspace():
        before -= 1
        if answer[before] == "\n":
            return cut
    leading = _LEADING.match(answer, cut)
    return leading.end() if leading else cut


def _claim(
    answer: str, span: Span, quoted: Sequence[Span], sources: Mapping[int, FoldedText]
) -> Claim:
    text = answer[span.start : span.end]
    markers = tuple(dict.fromkeys(_markers(text, sources)))
    first = bisect_left(quoted, span.start, key=lambda quote: quote.start)
    inside = takewhile(
        lambda quote: quote.end <= span.end, (quoted[i] for i in range(first, len(quoted)))
    )
    allowed = {marker: sources[marker] for marker in markers or sources if marker in sources}
    return Claim(
        text=text,
        start=span.start,
        end=span.end,
        markers=markers,
        quotes=tuple(_quote(answer, quote, allowed) for quote in inside),
    )


def _markers(text: str, known: Iterable[int]) -> Iterator[int]:
    """The numbers that markers name; of a range its ends, and those between that are known."""
    for match in _MARKER.finditer(text):
        for part in _SEPARATOR.split(match[1]):
            first, *rest = (int(number) for number in _DASH.split(part))
            last = rest[0] if rest else first
            yield first
            yield from (marker for marker in known if first < marker < last)
            yield last


def _quote(answer: str, span: Span, allowed: Mapping[int, FoldedText]) -> Quote:
    text = answer[span.start : span.end]
    for marker, source in allowed.items():
        if cited := source.locate(text):
            return Quote(text=text, start=span.start, end=span.end, found_in=marker, source=cited)
    return Quote(text=text, start=span.start, end=span.end)


def quotations(text: str) -> list[Span]:
    """The spans of quoted words, without the marks around them."""
    found = []
    for match in _QUOTED.finditer(text):
        kind = match.lastgroup
        if kind and _folded(match[kind])[0].strip(_EDGES):
            found.append(Span(*match.span(kind)))
    return found


def locate(quote: str, text: str) -> Span | None:
    """The span of `text` that `quote` quotes, None if there is none.

    Punctuation at the ends of the quotation is the answer's own.
    """
    return FoldedText(text).locate(quote)


def _folded(text: str) -> tuple[str, list[int]]:
    """The text in a normal form, and the offset of each of its characters in the original."""
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
