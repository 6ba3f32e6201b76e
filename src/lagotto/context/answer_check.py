"""Checking an answer against the pack it was written from: what it cites, states and quotes.

Whether a claim follows from its source is for a judge, such as a language model. Without one, this
tells what can be told for sure: which passages a sentence names, whether there are such passages,
and whether its numbers, its names and what it quotes stand in them. In quotations case, white
space, and the shape of quotation marks, apostrophes and dashes don't matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from pydantic import Field

from lagotto.chunkers.boundaries import Boundaries
from lagotto.context.facts import (
    all_numbers,
    capitalises_nouns,
    names,
    numbers,
    words_of,
)
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
_MARKER = re.compile(
    rf"\[\s{{0,9}}({_NUMBERS}(?:\s{{0,9}}[,;]\s{{0,9}}{_NUMBERS})*)\s{{0,99}}\]", re.ASCII
)
_OTHER_BRACKETS = re.compile(r"【([^【】\n]{1,99})】|\[\^(\d{1,6})\]")
_DAGGER = re.compile(r"†.*")
_PARENTHESES = re.compile(r"(?<=\S )\((\d{1,3})\)|(?<=\w)\((\d{1,3})\)(?=[\s.,;]|\Z)", re.ASCII)
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


Judge = Callable[[str, Sequence[str]], bool]
"""Whether a sentence follows from the passages that it cites: a language model, for example."""


class Claim(Record):
    """A sentence of an answer, the markers it names, and what it quotes.

    `missing` are its numbers and names that the passages lack which it cites. `follows` is what a
    judge said, None if none was asked.
    """

    text: str
    start: int
    end: int
    markers: tuple[int, ...] = ()
    quotes: tuple[Quote, ...] = ()
    missing: tuple[str, ...] = ()
    follows: bool | None = None

    @property
    def states(self) -> bool:
        """Whether it states something: a question does not, nor what ends with a colon."""
        return not self.text.rstrip(" *_\"”'’)").endswith(("?", ":"))


class AnswerCheck(Record):
    """What an answer cites, states and quotes.

    `ok` if it is not empty, every sentence that states something cites a passage (unless
    `may_be_uncited`), every marker stands for one, the numbers, names and quotations of a sentence
    occur in what it cites, and no judge objects. Without a judge, a sentence may be `ok` and say
    something else than its source with the same numbers and names.
    """

    claims: tuple[Claim, ...] = ()
    may_be_uncited: bool = False
    unknown_markers: tuple[int, ...] = ()
    missing_quotes: tuple[Quote, ...] = ()
    ok: bool = Field(default_factory=lambda fields: _nothing_wrong(fields))

    @property
    def uncited(self) -> tuple[Claim, ...]:
        """The sentences that state something without any marker."""
        return tuple(claim for claim in self.claims if claim.states and not claim.markers)

    @property
    def unsupported(self) -> tuple[Claim, ...]:
        """The sentences with numbers or names that what they cite lacks, or that don't follow."""
        return tuple(one for one in self.claims if one.missing or one.follows is False)


def _nothing_wrong(fields: Mapping[str, Any]) -> bool:
    found = AnswerCheck(ok=False, **fields)
    cited = found.may_be_uncited or not found.uncited
    wrong = found.unknown_markers or found.missing_quotes or found.unsupported
    return bool(found.claims) and cited and not wrong


def check_answer(
    answer: str, *, pack: ContextPack, may_be_uncited: bool = False, judge: Judge | None = None
) -> AnswerCheck:
    """Which sentences of `answer` cite, state and quote what, and what of it is not in the pack.

    Markers are [1], [2][3], [1, 2] and [1-3], also as 【1】, [^1] or (1); one behind the full stop
    belongs to the sentence before it. `judge` is asked about each sentence that cites a passage.
    """
    original, sources = answer, _sources(pack)
    answer = _in_square_brackets(answer, sources)
    quoted = quotations(answer)
    facts = {marker: _Facts.of(source) for marker, source in sources.items()}
    claims = tuple(
        _checked(_claim(answer, span, quoted, sources), original, facts, judge)
        for span in _sentences(answer, quoted)
    )
    named = dict.fromkeys(_markers(answer, sources))
    return AnswerCheck(
        claims=claims,
        may_be_uncited=may_be_uncited,
        unknown_markers=tuple(marker for marker in named if marker not in sources),
        missing_quotes=tuple(
            quote for claim in claims for quote in claim.quotes if quote.found_in is None
        ),
    )


def _in_square_brackets(answer: str, known: Collection[int]) -> str:
    """The answer with markers in other brackets as [1], every character at its offset.

    A number in parentheses is a marker if there is such a passage, and not where a line starts.
    """

    def squared(match: re.Match[str]) -> str:
        inside = _DAGGER.sub("", match[1] or match[2])
        return f"[{inside:{len(match[0]) - 2}}]" if _MARKER.fullmatch(f"[{inside}]") else match[0]

    def known_only(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        return f"[{number}]" if int(number) in known else match[0]

    return _PARENTHESES.sub(known_only, _OTHER_BRACKETS.sub(squared, answer))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a passage has, with its citation: numbers and words."""

    text: str
    numbers: set[str]
    words: set[str]
    has_names: bool

    @classmethod
    def of(cls, source: FoldedText) -> _Facts:
        shown = f"{source.label}\n{source.text}"
        has_names = not capitalises_nouns(source.text)
        return cls(source.text, all_numbers(shown), words_of(shown), has_names)


def _checked(
    claim: Claim, original: str, facts: Mapping[int, _Facts], judge: Judge | None
) -> Claim:
    """The claim, in its own words, with what the passages lack that it cites."""
    text = original[claim.start : claim.end]
    cited = [facts[marker] for marker in claim.markers if marker in facts]
    if not cited:
        return claim.model_copy(update={"text": text})
    said = _MARKER.sub("", claim.text).strip()
    follows = judge(said, [one.text for one in cited]) if judge else None
    changes = {"text": text, "missing": tuple(_missing(said, cited)), "follows": follows}
    return claim.model_copy(update=changes)


def _missing(said: str, cited: Sequence[_Facts]) -> Iterator[str]:
    known = set().union(*(one.numbers for one in cited))
    yield from (written for value, written in numbers(said).items() if value not in known)
    words = set().union(*(one.words for one in cited))
    if all(one.has_names for one in cited):
        for name in names(said):
            parts = {name.casefold(), *name.casefold().split("-")}
            if not parts & words:
                yield name


class FoldedText:
    """A text in the form in which quotations are compared with it, made once."""

    def __init__(self, text: str, *, start: int = 0, label: str = "") -> None:
        self.text = text
        self.label = label
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
            label=citation.label,
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
