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
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

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
_MARKER = re.compile(
    rf"\[\s{{0,9}}({_NUMBERS}(?:\s{{0,9}}[,;]\s{{0,9}}{_NUMBERS})*)\s{{0,99}}\]", re.ASCII
)
_OTHER_BRACKETS = re.compile(r"【([^【】\n]{1,99})】|\[\^(\d{1,6})\]")
_PARENTHESES = re.compile(r"(?<=\S )\((\d{1,3})\)|(?<=\w)\((\d{1,3})\)(?=[\s.,;]|\Z)", re.ASCII)
_LEADING = re.compile(rf"[^\S\n]*+(?:{_MARKER.pattern}[^\S\n]*+)++", re.ASCII)
_SEPARATOR = re.compile("[,;]")
_DASH = re.compile("[-–]")
_WORD = re.compile(r"\w")


class Quote(Record):
    """Quoted words of an answer; `start` and `end` are offsets in the answer.

    `found_in` is the marker of the passage that holds them, `source` their span in its document;
    both are None if no passage that the sentence cites does, or none at all if it cites nothing.
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
    ok: bool = Field(default_factory=lambda fields: AnswerCheck(ok=False, **fields)._is_right)

    @property
    def uncited(self) -> tuple[Claim, ...]:
        """The sentences that state something without any marker."""
        return tuple(claim for claim in self.claims if claim.states and not claim.markers)

    @property
    def unsupported(self) -> tuple[Claim, ...]:
        """The sentences with numbers or names that what they cite lacks, or that don't follow."""
        return tuple(one for one in self.claims if one.missing or one.follows is False)

    @property
    def _is_right(self) -> bool:
        wrong = self.unknown_markers or self.missing_quotes or self.unsupported
        return bool(self.claims) and (self.may_be_uncited or not self.uncited) and not wrong


def check_answer(
    answer: str, *, pack: ContextPack, may_be_uncited: bool = False, judge: Judge | None = None
) -> AnswerCheck:
    """Which sentences of `answer` cite, state and quote what, and what of it is not in the pack.

    Markers are [1], [2][3], [1, 2] and [1-3], also as 【1】, [^1] or (1); one behind the full stop
    belongs to the sentence before it. `judge` is asked about each sentence that cites a passage.
    """
    sources = _sources(pack)
    bracketed = _in_square_brackets(answer, sources)
    quoted = quotations(bracketed)
    claims = tuple(
        _claim(bracketed, span, quoted, sources, words=answer[span.start : span.end], judge=judge)
        for span in _sentences(bracketed, quoted)
    )
    named = dict.fromkeys(_markers(bracketed, sources))
    return AnswerCheck(
        claims=claims,
        may_be_uncited=may_be_uncited,
        unknown_markers=tuple(marker for marker in named if marker not in sources),
        missing_quotes=tuple(
            quote for claim in claims for quote in claim.quotes if quote.found_in is None
        ),
    )


def _in_square_brackets(answer: str, markers: Collection[int]) -> str:
    """The answer with markers in other brackets as [1], every character at its offset.

    A number in parentheses is a marker if there is such a passage, and not where a line starts.
    """

    def squared(match: re.Match[str]) -> str:
        inside = (match[1] or match[2]).partition("†")[0]
        return f"[{inside:{len(match[0]) - 2}}]" if _MARKER.fullmatch(f"[{inside}]") else match[0]

    def known_only(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        return f"[{number}]" if int(number) in markers else match[0]

    return _PARENTHESES.sub(known_only, _OTHER_BRACKETS.sub(squared, answer))


def _missing(claim: str, cited: Sequence[FoldedText]) -> Iterator[str]:
    cited_values = set().union(*(one.numbers for one in cited))
    yield from (token for value, token in numbers(claim).items() if value not in cited_values)
    words = set().union(*(one.words for one in cited))
    if all(one.has_names for one in cited):
        for name in names(claim):
            parts = {name.casefold(), *name.casefold().split("-")}
            if not parts & words:
                yield name


class FoldedText:
    """A text as it is compared with quotations, and what it has, with its citation, of facts."""

    def __init__(self, text: str, *, start: int = 0, label: str = "") -> None:
        self.text = text
        self._with_label = f"{label}\n{text}"
        self._folded, self._offsets = _folded(text)
        self._start = start
        self._spans: dict[str, Span | None] = {}

    @cached_property
    def numbers(self) -> set[str]:
        """The values of its numbers, numerals and months."""
        numbers = map(_value, _NUMBER.findall(self._with_label))
        return {*numbers, *(_NAMED[word] for word in self.words & _NAMED.keys())}

    @cached_property
    def words(self) -> set[str]:
        return words_of(self._with_label)

    @cached_property
    def has_names(self) -> bool:
        """Whether so few words are capitalised that these can all be names."""
        inner = list(_inner_words(self.text))
        return sum(word[0].isupper() for word in inner) <= _NAMES * max(1, len(inner))

    def locate(self, quote: str) -> Span | None:
        """The span of the text that `quote` quotes, None if there is none."""
        folded = _folded(quote)[0].strip(_EDGES)
        if folded not in self._spans:
            at = self._folded.find(folded) if folded else -1
            span = None
            if at >= 0:
                last = self._offsets[at + len(folded) - 1]
                span = Span(self._start + self._offsets[at], self._start + last + 1)
            self._spans[folded] = span
        return self._spans[folded]


def _sources(pack: ContextPack) -> dict[int, FoldedText]:
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
    answer: str,
    span: Span,
    quoted: Sequence[Span],
    sources: Mapping[int, FoldedText],
    *,
    words: str,
    judge: Judge | None,
) -> Claim:
    """A sentence, in its own `words`, with what it names and quotes, and what its passages lack."""
    text = answer[span.start : span.end]
    markers = tuple(dict.fromkeys(_markers(text, sources)))
    allowed = [marker for marker in markers or sources if marker in sources]
    first = bisect_left(quoted, span.start, key=lambda quote: quote.start)
    quotes = []
    for index in range(first, len(quoted)):
        start, end = quoted[index]
        if end > span.end:
            break
        located = ((marker, sources[marker].locate(answer[start:end])) for marker in allowed)
        marker, source = next((pair for pair in located if pair[1]), (None, None))
        quote = Quote(text=answer[start:end], start=start, end=end, found_in=marker, source=source)
        quotes.append(quote)
    cited = [sources[marker] for marker in markers if marker in sources]
    plain = _MARKER.sub("", text).strip()
    return Claim(
        text=words,
        start=span.start,
        end=span.end,
        markers=markers,
        quotes=tuple(quotes),
        missing=tuple(_missing(plain, cited)) if cited else (),
        follows=judge(plain, [one.text for one in cited]) if judge and cited else None,
    )


def _markers(text: str, existing: Iterable[int]) -> Iterator[int]:
    """The numbers that markers name; of a range its ends, and those between that are known."""
    for match in _MARKER.finditer(text):
        for part in _SEPARATOR.split(match[1]):
            first, *rest = (int(number) for number in _DASH.split(part))
            last = rest[0] if rest else first
            yield first
            yield from (marker for marker in existing if first < marker < last)
            yield last


def quotations(text: str) -> list[Span]:
    """The spans of quoted words, without the marks around them."""
    spans = []
    for match in _QUOTED.finditer(text):
        kind = match.lastgroup
        if kind and _folded(match[kind])[0].strip(_EDGES):
            spans.append(Span(*match.span(kind)))
    return spans


def _folded(text: str) -> tuple[str, list[int]]:
    """The text in a normal form, and the offset of each of its characters in the original."""
    chars: list[str] = []
    offsets: list[int] = []
    for offset, char in enumerate(text):
        is_space = char.isspace()
        if is_space and offset and text[offset - 1].isspace():
            continue
        folded = " " if is_space else _SAME.get(char, char.casefold())
        chars += folded
        offsets += [offset] * len(folded)
    return "".join(chars), offsets


# Numbers and names are compared in one form: 1,749 is 1749, 5 % and five per cent are 5, a month is
# also its number. A name is a capitalised word inside a sentence; in a language that capitalises
# nouns, names can't be told, and none are found.
_NUMBER = re.compile(
    r"(?<![\w.])\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[.,]\d+)?"
)
_ISO_MONTH = re.compile(r"(?<!\d)\d{4}-(\d\d)-\d\d(?!\d)")
_NAME_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_ENUMERATION = re.compile(r"\A\s*(?:[-*•]\s+)?(?:\d{1,3}[.)]\s+)?")
_SENTENCE_ENDS = frozenset(".!?:…\n")
_GROUPED = re.compile(r"[,'’\u00a0\u202f](?=\d{3}(?!\d))")

_COUNTED = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_YEAR = """january february march april may june july august september october november
    december"""
_MONTHS = {word: str(number) for number, word in enumerate(_YEAR.split(), 1)}
_NAMED = {
    **_MONTHS,
    **{word: str(number) for number, word in enumerate(_COUNTED.split())},
    **{word: str(10 * number) for number, word in enumerate(_TENS.split(), 3)},
}
_DIGITS = 28
"""Characters of a number that is compared by value: as many digits are exact."""
_NAMES = 0.2
"""Above this share of capitalised words within sentences, they are not only names."""


def numbers(text: str) -> dict[str, str]:
    """The numbers of a text as they are written, by their value."""
    by_value: dict[str, str] = {}
    for match in _NUMBER.finditer(_ENUMERATION.sub("", text)):
        by_value.setdefault(_value(match[0]), match[0])
    return by_value


def names(text: str) -> list[str]:
    """The capitalised words inside sentences, without a possessive ending."""
    inner = list(_inner_words(_ENUMERATION.sub("", text)))
    return list(dict.fromkeys(_bare(word) for word in inner if word[0].isupper() and len(word) > 1))


def words_of(text: str) -> set[str]:
    """The words of a text, and the names of months in its dates: 2025-03-04 has March."""
    names = {number: name for name, number in _MONTHS.items()}
    words = {_bare(match[0]).casefold() for match in _NAME_WORD.finditer(text)}
    words.update(
        names[_value(month)] for month in _ISO_MONTH.findall(text) if _value(month) in names
    )
    return words | {part for word in words for part in word.split("-")}


def _inner_words(text: str) -> Iterator[str]:
    end: int | None = None
    for match in _NAME_WORD.finditer(text):
        if end is not None and _SENTENCE_ENDS.isdisjoint(text[end : match.start()]):
            yield match[0]
        end = match.end()


def _bare(word: str) -> str:
    for ending in ("'s", "’s", "'", "’"):
        word = word.removesuffix(ending)
    return word


def _value(number: str) -> str:
    plain = _GROUPED.sub("", number).replace(",", ".")
    return format(Decimal(plain).normalize(), "f") if len(plain) <= _DIGITS else plain
