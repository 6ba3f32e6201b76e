"""The token budget: how tokens are counted, and which pieces stay when not all of them fit."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import pairwise

from lagotto._internal.concurrency import with_checkpoints
from lagotto._internal.tokens import Tokenizer
from lagotto.chunkers.boundaries import Boundaries, BoundaryKind
from lagotto.context.passages import Piece
from lagotto.documents import Chunk, ChunkSection, DocumentRef, Span, storable
from lagotto.errors import ConfigError, UnknownNameError, native_panics

TokenCounter = Callable[[str], int]
CounterLike = Tokenizer | TokenCounter | str


def token_counter(counter: CounterLike) -> TokenCounter:
    """A function that counts tokens, from a tokenizer, a function or `tiktoken:ENCODING`."""
    if isinstance(counter, str):
        return _counter_from_spec(counter)
    if isinstance(counter, Tokenizer):
        tokenizer = counter
        return lambda text: tokenizer.count([text])[0]
    return counter


def _counter_from_spec(name: str) -> TokenCounter:
    library, _, encoding = name.partition(":")
    if library != "tiktoken" or not encoding:
        raise UnknownNameError(
            f'unknown token counter "{name}"; write tiktoken:ENCODING, such as '
            "tiktoken:cl100k_base, a tokenizer or a function"
        )
    return _tiktoken(encoding)


def _tiktoken(encoding: str) -> TokenCounter:
    try:
        tiktoken = import_module("tiktoken")
    except ImportError as exc:
        raise ConfigError(
            f"tiktoken:{encoding} needs the tiktoken package; install it (pip install tiktoken)"
        ) from exc
    try:
        encoder = tiktoken.get_encoding(encoding)
    except (ValueError, OSError) as exc:  # no such encoding; its file can't be downloaded
        raise ConfigError(f"tiktoken has no encoding {encoding!r} at hand: {exc}") from exc

    @native_panics("tiktoken")
    def count(text: str) -> int:
        return len(encoder.encode(storable(text), disallowed_special=()))

    return count


Fits = Callable[[Sequence[Piece]], bool]
"""Whether a pack of these pieces, in this order, stays within the budget."""

SAVED_BY_JOINING = 4
"""Tokens per block that a text may have less than its blocks: a tokenizer may join a line break
with what follows, and some count marks of the beginning and the end. With a smaller estimate a pack
may have fewer pieces than fit; a larger one costs a count of the whole text."""

_MARKUP = "#=-~*^ \t\r\n"
"""What lines of headings have around their titles, and underlines consist of."""


def fit(
    pieces: Sequence[Piece],
    *,
    blocks: Callable[[Sequence[Piece]], Sequence[str]],
    join: Callable[[Sequence[str]], str],
    count: Callable[[str], int],
    budget: int,
    minimum: int,
) -> list[Piece]:
    """The pieces that stay, in order: the strongest ones, as many as `budget` allows.

    What goes first are chunks of other pages, then siblings, then parents, then primaries, of each
    kind those of the lowest hits. The first `minimum` primaries stay; if they alone are too
    large they are shortened. Nothing stays if not even a part of the first one fits.

    `blocks` are the passages of a pack, and `join` makes one text of them. Counting is what takes
    time, so `count` should cache: the whole text is counted once or twice, and otherwise only the
    blocks in which two packs differ.
    """
    order = sorted(range(len(pieces)), key=lambda index: pieces[index].weakness)

    def strongest(number: int) -> list[Piece]:
        return [pieces[index] for index in sorted(order[:number])]

    def fits(chosen: Sequence[Piece]) -> bool:
        return count(join(blocks(chosen))) <= budget

    least = min(minimum, sum(piece.role == "primary" for piece in pieces))
    sizes = _Sizes(lambda number: blocks(strongest(number)), join, count)
    if sizes.exact(least) > budget:
        return shortened_to_fit(strongest(least), fits)
    lengths = _lengths([pieces[index].chunk for index in order])
    allowed = lengths[least] * budget / max(1, sizes.exact(least))
    number = max(least, bisect_right(lengths, allowed) - 1)
    while True:
        sizes.exact(number)
        found = _most_near(number, least, len(pieces), lambda n: sizes.lowest(n) <= budget)
        if found == number:
            return strongest(number)
        number = found


def _lengths(chunks: Sequence[Chunk]) -> list[int]:
    """The characters of the first 0, 1, 2, ... chunks; what they share counts once."""
    lengths = [0]
    seen: dict[DocumentRef, list[Chunk]] = defaultdict(list)
    for chunk in with_checkpoints(chunks):
        start, end = chunk.start, chunk.end
        others = seen[chunk.document_ref]
        for other in others:
            if other.start <= start:
                start = max(start, other.end)
            elif end <= other.end:
                end = min(end, other.start)
        others.append(chunk)
        lengths.append(lengths[-1] + max(0, end - start))
    return lengths


class _Sizes:
    """The tokens of packs by their number of pieces."""

    def __init__(
        self,
        blocks: Callable[[int], Sequence[str]],
        join: Callable[[Sequence[str]], str],
        count: Callable[[str], int],
    ) -> None:
        self._blocks = cache(blocks)
        self._join = join
        self._count = count
        self._known: dict[int, int] = {}
        self._last = 0

    def exact(self, number: int) -> int:
        """The tokens of the whole text."""
        if number not in self._known:
            self._known[number] = self._count(self._join(self._blocks(number)))
        self._last = number
        return self._known[number]

    def lowest(self, number: int) -> int:
        """The tokens, or a little less, by the blocks that the last counted text does not have."""
        if number in self._known:
            return self._known[number]
        here, there = Counter(self._blocks(number)), Counter(self._blocks(self._last))
        more, fewer = here - there, there - here
        added = sum(self._count(block) for block in more.elements())
        gone = sum(self._count(block) for block in fewer.elements())
        uncertain = SAVED_BY_JOINING * (more.total() + fewer.total())
        return self._known[self._last] + added - gone - uncertain


def _most(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """A number from `low` to `high` for which it holds and, unless it is `high`, not for the next.

    It must hold for `low`.
    """
    if low == high or holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _most_near(guess: int, low: int, high: int, holds: Callable[[int], bool]) -> int:
    """As `_most`, looking around `guess` first, in steps that grow."""
    step = 1
    if guess == low or holds(guess):
        while guess < high:
            further = min(high, guess + step)
            if not holds(further):
                return _most(guess, further - 1, holds)
            guess, step = further, 2 * step
        return high
    while guess - step > low and not holds(guess - step):
        guess, step = guess - step, 2 * step
    return _most(max(low, guess - step), guess - 1, holds)


def shortened_to_fit(primaries: Sequence[Piece], fits: Fits) -> list[Piece]:
    """The first primaries, as many as a sentence of each fits; the last ones are cut most."""
    if not primaries:
        return []
    for count in range(len(primaries), 0, -1):
        cut = _cut_from_behind(list(primaries[:count]), fits)
        if cut:
            return cut
    text = primaries[0].chunk.text
    visible = range(len(text) - len(text.lstrip()) + 1, len(text))
    for ends in (_ends(primaries[0], "word"), visible):
        cut = _longest(primaries[:1], 0, ends, fits)
        if cut:
            return cut
    return []


def _cut_from_behind(pieces: list[Piece], fits: Fits) -> list[Piece]:
    """All pieces, the last ones reduced to a sentence as far as needed; none if it won't do."""
    for index in reversed(range(len(pieces))):
        ends = _ends(pieces[index], "sentence", "line")
        cut = _longest(pieces, index, ends, fits)
        if cut:
            return cut
        pieces[index] = _ending(pieces[index], ends[0])
    return []


def _longest(pieces: Sequence[Piece], index: int, ends: Sequence[int], fits: Fits) -> list[Piece]:
    """The pieces with the one at `index` as long as it may be; none if it is always too long."""

    def cut(choice: int) -> list[Piece]:
        shorter = _ending(pieces[index], ends[choice])
        return [*pieces[:index], shorter, *pieces[index + 1 :]]

    if not ends or not fits(cut(0)):
        return []
    return cut(_most(0, len(ends) - 1, lambda choice: fits(cut(choice))))


def _ends(piece: Piece, *kinds: BoundaryKind) -> list[int]:
    """Where the text can end, counted from its start, ascending; the last is its own end.

    It does not end at the headings that it starts with: they say nothing by themselves.
    """
    text, least = piece.chunk.text, _headings_end(piece.chunk)
    boundaries = Boundaries(text)
    starts: Iterable[int] = (int(offset) for kind in kinds for offset in boundaries.of(kind))
    visible = {end for start in starts if (end := len(text[:start].rstrip())) > least}
    return sorted(visible | {len(text)})


def _headings_end(chunk: Chunk) -> int:
    """The length of the headings, blank lines and underlines that the text starts with."""
    paths = (chunk.heading_path, *(section.heading_path for section in chunk.sections))
    titles = {"", *(title for path in paths for title in path)}
    length = 0
    for line in chunk.text.splitlines(keepends=True):
        if line.strip(_MARKUP) not in titles:
            break
        length += len(line)
    return length


def _ending(piece: Piece, length: int) -> Piece:
    """The piece with the first `length` characters of its text."""
    return clipped(piece, Span(0, length))


def clipped(piece: Piece, part: Span) -> Piece:
    """The piece with a part of its text, counted from its start.

    Which rows or items are left of it is not known here, so it no longer claims any.
    """
    chunk = piece.chunk
    if part == (0, len(chunk.text)):
        return piece
    text, start = chunk.text[part.start : part.end], chunk.start + part.start
    end = start + len(text)
    line = chunk.lines and chunk.lines[0] + chunk.text.count("\n", 0, part.start)
    changes = {
        "text": text,
        "start": start,
        "end": end,
        "row_range": None,
        "item_range": None,
        "lines": line and (line, line + text.count("\n")),
        "sections": _sections_within(chunk, Span(start, end)),
    }
    return replace(
        piece,
        chunk=chunk.model_copy(update=changes),
        cut_before=bool(chunk.text[: part.start].strip()),
        cut_after=bool(chunk.text[part.end :].strip()),
    )


def _sections_within(chunk: Chunk, part: Span) -> tuple[ChunkSection, ...]:
    """The sections that a part of a chunk reaches into."""
    before = [section for section in chunk.sections if section.start <= part.start]
    first = [before[-1]._replace(start=part.start)] if before else []
    within = [section for section in chunk.sections if part.start < section.start < part.end]
    return tuple(section._replace(row_range=None, item_range=None) for section in first + within)


def most_telling(
    piece: Piece, words: Sequence[Span], fits: Callable[[Piece], bool]
) -> Piece | None:
    """The sentences of a piece around those with the most of `words`, as many as fit.

    `words` are the spans of its text that speak for the query. None if not one sentence fits.
    """
    text = piece.chunk.text
    edges = _sentence_edges(text)
    told = [sum(start <= word.start < end for word in words) for start, end in pairwise(edges)]
    first = max(range(len(told)), key=lambda index: (told[index], -index))
    last = first + 1

    def part(first: int, last: int) -> Piece:
        inside = text[edges[first] : edges[last]]
        start = edges[first] + len(inside) - len(inside.lstrip())
        return clipped(piece, Span(start, edges[first] + len(inside.rstrip())))

    if not any(told) or not fits(part(first, last)):
        return None
    while True:
        sides = [(told[last], first, last + 1)] if last < len(told) else []
        sides += [(told[first - 1], first - 1, last)] if first else []
        wider = [(a, b) for _, a, b in sorted(sides, key=lambda side: -side[0]) if fits(part(a, b))]
        if not wider:
            return part(first, last)
        first, last = wider[0]


def _sentence_edges(text: str) -> list[int]:
    """Where sentences and lines start, and the end."""
    boundaries = Boundaries(text)
    starts = {int(at) for kind in ("sentence", "line") for at in boundaries.of(kind)}
    return sorted({0, len(text)} | {at for at in starts if text[:at].strip() and text[at:].strip()})
