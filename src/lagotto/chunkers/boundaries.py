"""Boundaries at which a text can be cut, and how chunks are measured in tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.concurrency import checkpoint
from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Block, Document, Region, storable
from lagotto.errors import native_panics

Offsets = NDArray[np.int64]
BoundaryKind = Literal[
    "section", "definition", "paragraph", "part", "line", "sentence", "statement", "word"
]
_LINE_ENDS: dict[BoundaryKind, int] = {"word": 0, "line": 1, "paragraph": 2}
"""How many line ends make white space a boundary."""

_SPACES = np.array([*map(ord, filter(str.isspace, map(chr, range(0x3001))))], np.uint32)
_AS_SPACE = {code: " " for code in _SPACES.tolist() if code > 127}
_PARAGRAPH_END = re.compile(r"\n\r+(?=\n)")
_NEWLINE = ord("\n")

BLANK_LINE = "\n\n"
SENTENCE_BATCH = 20_000
"""Characters, at least, that are split into sentences in one call."""
QUOTATION_BATCH = 5_000
"""Characters, at most, that are split in one call if there are many quotation marks in them."""
MOST_QUOTATION_MARKS = 1_000
_QUOTATION_MARKS = re.compile(r"[“”„«»‹›「」‘’(（]|(?<!\w)['`]")
"""What sentencex looks for the other half of; not apostrophes inside words."""
_TITLE_LINE = re.compile(r"\s*[^\n]*\n?(?:[-=~^\"'#*+.:`_]+[ \t]*\n)?\s*")
"""The line of a heading, an underline if it has one, and white space up to its text."""


class Boundaries:
    """The boundaries of a text, a document's or not, in ascending order, computed on first use."""

    def __init__(self, text: str, document: Document | None = None) -> None:
        self._text = storable(text)
        self._headings = document.headings if document else ()
        self._blocks = outermost(document.blocks) if document else []
        self._language = (document.language if document else None) or "en"

    def of(self, kind: BoundaryKind) -> Offsets:
        """All boundaries of one kind."""
        if kind in _LINE_ENDS:
            starts, line_ends = self._breaks
            return np.unique(starts[line_ends >= _LINE_ENDS[kind]])
        offsets: Offsets = getattr(self, f"_{kind}")
        return offsets

    def split_parts(self, offsets: Offsets) -> NDArray[np.bool_]:
        """Mask the offsets that would split a row, an item, or a heading from its text."""
        return _inside(offsets, self._parts) | _inside(offsets, self._heads)

    @cached_property
    def _section(self) -> Offsets:
        """The edges of sections, tables and lists; not of pages, which split sentences."""
        return np.unique(_spans((*self._headings, *self._blocks)))

    @cached_property
    def _definition(self) -> Offsets:
        """Lines of code without indentation after a blank line: most likely definitions."""
        codes = self._codes
        paragraphs = self.of("paragraph")
        margin = paragraphs[paragraphs < len(codes)]
        margin = margin[~np.isin(codes[margin], _SPACES)]
        return np.union1d(margin, _spans(self._headings)[:, 0])

    @cached_property
    def _part(self) -> Offsets:
        return np.unique(self._parts)

    @cached_property
    def _sentence(self) -> Offsets:
        starts = (
            start + sentence
            for start, text in self._batches()
            for sentence in sentence_starts(text, self._language)
        )
        return np.unique(np.fromiter(starts, np.int64))

    @cached_property
    def _statement(self) -> Offsets:
        """Sentences of prose, lines of code."""
        code = _spans([block for block in self._blocks if block.kind == "code"])
        if code.tolist() == [[0, len(self._text)]]:
            return self.of("line")  # no sentences to look for
        lines, sentences = self.of("line"), self._sentence
        return np.union1d(sentences[~_inside(sentences, code)], lines[_inside(lines, code)])

    def _batches(self) -> Iterator[tuple[int, str]]:
        """Yield offset and text of batches of whole paragraphs, with one blank line after each.

        sentencex creates a dict for every boundary, and a boundary at every blank line: a few
        megabytes of line ends would take gigabytes.
        """
        text, start = self._text, 0
        for end in (*self.of("paragraph").tolist(), len(text)):
            checkpoint()
            if end - start >= SENTENCE_BATCH or end == len(text):
                visible = len(text[start:end].rstrip())
                batch = text[start : min(end, start + visible + len(BLANK_LINE))]
                yield from _quotation_batches(start, batch)
                start = end

    @cached_property
    def _codes(self) -> NDArray[np.uint32]:
        return np.frombuffer(self._text.encode("utf-32-le"), np.uint32)

    @cached_property
    def _breaks(self) -> tuple[Offsets, Offsets]:
        """For each run of white space, a boundary (at its last line end, if any), its line ends."""
        space = np.isin(self._codes, _SPACES)
        padded = np.concatenate(([False], space, [False]))
        edges = np.flatnonzero(padded[1:] != padded[:-1]).astype(np.int64)
        is_line_end = self._codes == _NEWLINE
        before, after = np.concatenate(([0], np.cumsum(is_line_end)))[edges].reshape(-1, 2).T
        last = np.append(np.flatnonzero(is_line_end), 0)[after - 1] + 1
        return np.where(after > before, last, edges[1::2]), after - before

    @cached_property
    def _heads(self) -> Offsets:
        """From where each section starts to its text or first subsection, if it has any."""
        return _rows(
            (line.start(), line.end() + 1)
            for heading in self._headings
            if (line := _TITLE_LINE.match(self._text, heading.start)) and line.end() < heading.end
        )

    @cached_property
    def _parts(self) -> Offsets:
        parts = (part for block in self._blocks for part in block.parts)
        return _rows(sorted(part for part in parts if part.start < part.end))


def sentence_starts(text: str, language: str) -> list[int]:
    """The offsets at which sentences and blank lines start; NativeError if sentencex fails.

    It gets a text of the same length that it can take. White space other than ASCII behind a single
    letter and before a full stop makes it panic, and it counts a line end, carriage returns and a
    line end as two characters, so that all later offsets are too small.
    """
    from sentencex import get_sentence_boundaries

    taken = _PARAGRAPH_END.sub(lambda end: " " * (len(end[0]) - 1) + "\n", text)
    with native_panics("the sentence splitter"):
        sentences = get_sentence_boundaries(language, taken.translate(_AS_SPACE))
    return [sentence["start_index"] for sentence in sentences]


def outermost(blocks: Iterable[Block]) -> list[Block]:
    """The blocks that are not inside another block; `blocks` are sorted as in Document."""
    outer: list[Block] = []
    for block in blocks:
        if not outer or block.start >= outer[-1].end:
            outer.append(block)
    return outer


def _rows(pairs: Iterable[tuple[int, int]]) -> Offsets:
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _spans(regions: Iterable[Region]) -> Offsets:
    return _rows((region.start, region.end) for region in regions)


def _inside(offsets: Offsets, spans: Offsets) -> NDArray[np.bool_]:
    """Mask the offsets that are strictly inside one of the spans, which are in order."""
    if not len(spans):
        return np.zeros(len(offsets), np.bool_)
    starts, ends = spans.T
    before = np.searchsorted(starts, offsets) - 1
    inside: NDArray[np.bool_] = (before >= 0) & (offsets < ends[before])
    return inside


def _quotation_batches(start: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield offset and text of pieces of a batch, more than one if it is full of quotation marks.

    The time that sentencex takes grows with the square of their number. A piece ends behind its
    last sentence if that is plain, else behind a word.
    """
    if len(_QUOTATION_MARKS.findall(text)) <= MOST_QUOTATION_MARKS:
        yield start, text
        return
    at = 0
    while at < len(text):
        cut = at + QUOTATION_BATCH
        for marks in ((". ", ".\n"), ("\n", " ")) if cut < len(text) else ():
            last = max(text.rfind(mark, at, cut) + len(mark) for mark in marks)
            if last > at + 1:
                cut = last
                break
        yield start + at, text[at:cut]
        at = cut


LETTERS_PER_TOKEN = 4
"""About as many letters as a token has in a language that the vocabulary is made for."""

SYLLABLES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI", "ETHIOPIC")
"""Scripts, by their Unicode names, in which a character is a syllable or a word: a token each."""


def measuring_tokenizer(tokenizer: Tokenizer, alphabets: Sequence[str]) -> Tokenizer:
    """The tokenizer that chunkers measure with, for a model that knows `alphabets`; none mean all.

    It differs from `tokenizer` in texts of other alphabets, whose words it counts by their letters.
    """
    return MeasuringTokenizer(tokenizer, alphabets) if alphabets else tokenizer


class MeasuringTokenizer:
    """A Tokenizer that puts up to `LETTERS_PER_TOKEN` letters of a spelled word into one token."""

    def __init__(self, tokenizer: Tokenizer, alphabets: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._known = (*alphabets, *SYLLABLES, "COMBINING")

    @property
    def id(self) -> str:
        return f"{self._tokenizer.id}+{LETTERS_PER_TOKEN}"

    def count(self, texts: Sequence[str]) -> list[int]:
        counts = self._tokenizer.count(texts)
        if spelled := [index for index, text in enumerate(texts) if self._spelled(text).any()]:
            starts = self.starts([texts[index] for index in spelled])
            for index, offsets in zip(spelled, starts, strict=True):
                counts[index] = len(offsets)
        return counts

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return list(map(joined, self._tokenizer.starts(texts), map(self._spelled, texts)))

    def _spelled(self, text: str) -> NDArray[np.bool_]:
        """Which characters are letters of other alphabets; an empty mask if none is."""
        if text.isascii() and "LATIN" in self._known:
            return np.empty(0, np.bool_)
        letters = {ord(char) for char in set(text) if _is_foreign(char, self._known)}
        if not letters:
            return np.empty(0, np.bool_)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        return np.isin(codes, list(letters))


@lru_cache(maxsize=4096)
def _is_foreign(char: str, known: tuple[str, ...]) -> bool:
    """Whether a character is a letter, or a sign on one, of an alphabet that is not known."""
    is_letter = unicodedata.category(char)[0] in "LM"
    return is_letter and not unicodedata.name(char, "").startswith(known)


def joined(starts: NDArray[np.int64], spelled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Token offsets without those inside a group of letters of a spelled word.

    `spelled` marks the letters of the text, or is empty if it has none.
    """
    if not spelled.any() or not len(starts):
        return starts
    offsets = np.arange(len(spelled))
    word_starts = np.maximum.accumulate(np.where(spelled, 0, offsets + 1))[starts]
    groups = (starts - word_starts) // LETTERS_PER_TOKEN
    # what comes before a word is in no group of it: its distance is negative
    same_group = (word_starts[1:] == word_starts[:-1]) & (groups[1:] == groups[:-1])
    first = np.ones(len(starts), np.bool_)
    first[1:] = ~(spelled[starts[1:]] & same_group)
    return starts[first]
