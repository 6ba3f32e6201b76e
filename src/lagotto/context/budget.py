"""The token budget: how tokens are counted, and which pieces stay when not all of them fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise, takewhile

from lagotto._internal.concurrency import with_checkpoints
from lagotto._internal.tokens import Tokenizer
from lagotto.chunkers.boundaries import Boundaries, BoundaryKind
from lagotto.context.passages import Piece
from lagotto.documents import Span, storable
from lagotto.errors import ConfigError, UnknownNameError, native_panics

TokenCounter = Callable[[str], int]


def token_counter(counter: Tokenizer | TokenCounter | str) -> TokenCounter:
    """A function that counts tokens, from a tokenizer, a function or `tiktoken:ENCODING`."""
    if isinstance(counter, Tokenizer):
        tokenizer = counter
        return lambda text: tokenizer.count([text])[0]
    if not isinstance(counter, str):
        return counter
    library, _, encoding = counter.partition(":")
    if library != "tiktoken" or not encoding:
        raise UnknownNameError(
            f'unknown token counter "{counter}"; write tiktoken:ENCODING, such as '
            "tiktoken:cl100k_base, a tokenizer or a function"
        )
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


_MARKUP = "#=-~*^ \t\r\n"
"""What lines of headings have around their titles, and underlines consist of."""


def fit(
    pieces: Sequence[Piece], *, fits: Fits, take: Callable[[Piece], bool], minimum: int
) -> list[Piece]:
    """The pieces that stay, in order: the strongest ones, as many as fit.

    What goes first are chunks of other pages, then siblings, then parents, then primaries, of each
    kind those of the lowest hits. The first `minimum` primaries stay; if they alone are too
    large they are shortened. Nothing stays if not even a part of the first one fits.

    `take` takes one more piece if it should fit in beside those before. That is an estimate: to ask
    `fits` for each number of pieces would take longer than all the rest.
    """
    order = sorted(range(len(pieces)), key=lambda index: pieces[index].weakness)

    def strongest(number: int) -> list[Piece]:
        return [pieces[index] for index in sorted(order[:number])]

    least = min(minimum, sum(piece.role == "primary" for piece in pieces))
    if not fits(strongest(least)):
        return shortened_to_fit(strongest(least), fits)
    estimate = takewhile(take, (pieces[index] for index in with_checkpoints(order)))
    number = max(least, sum(1 for _ in estimate))
    while number > least and not fits(strongest(number)):
        number -= 1
    while number < len(order) and fits(strongest(number + 1)):
        number += 1
    return strongest(number)


def shortened_to_fit(primaries: Sequence[Piece], fits: Fits) -> list[Piece]:
    """The first primaries, as many as a sentence of each fits; the last ones are cut most."""
    for count in range(len(primaries), 0, -1):
        if cut := _cut_from_behind(list(primaries[:count]), fits):
            return cut
    for first in primaries[:1]:
        text = first.chunk.text
        visible = range(len(text) - len(text.lstrip()) + 1, len(text))
        for ends in (_ends(first, "word"), visible):
            if cut := _longest([first], 0, ends, fits):
                return cut
    return []


def _cut_from_behind(pieces: list[Piece], fits: Fits) -> list[Piece]:
    """All pieces, the last ones reduced to a sentence as far as needed; none if it won't do."""
    for index in reversed(range(len(pieces))):
        ends = _ends(pieces[index], "sentence", "line")
        if cut := _longest(pieces, index, ends, fits):
            return cut
        pieces[index] = clipped(pieces[index], Span(0, ends[0]))
    return []


def _longest(pieces: Sequence[Piece], index: int, ends: Sequence[int], fits: Fits) -> list[Piece]:
    """The pieces with the one at `index` as long as it may be; none if it is always too long."""

    def cut(end: int) -> list[Piece]:
        return [*pieces[:index], clipped(pieces[index], Span(0, end)), *pieces[index + 1 :]]

    if ends and fits(cut(ends[-1])):
        return cut(ends[-1])
    number = bisect_left(ends, True, key=lambda end: not fits(cut(end)))
    return cut(ends[number - 1]) if number else []


def _ends(piece: Piece, *kinds: BoundaryKind) -> list[int]:
    """Where the text can end, counted from its start, ascending; the last is its own end.

    The headings, blank lines and underlines that it starts with say nothing by themselves.
    """
    chunk, text = piece.chunk, piece.chunk.text
    paths = (chunk.heading_path, *(section.heading_path for section in chunk.sections))
    titles = {"", *(title for path in paths for title in path)}
    lines = text.splitlines(keepends=True)
    least = sum(map(len, takewhile(lambda line: line.strip(_MARKUP) in titles, lines)))
    boundaries = Boundaries(text)
    starts: Iterable[int] = (int(offset) for kind in kinds for offset in boundaries.of(kind))
    visible = {end for start in starts if (end := len(text[:start].rstrip())) > least}
    return sorted(visible | {len(text)})


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
    before = [section for section in chunk.sections if section.start <= start]
    within = [section._replace(start=start) for section in before[-1:]]
    within += [section for section in chunk.sections if start < section.start < end]
    sections = tuple(section._replace(row_range=None, item_range=None) for section in within)
    changes = {
        "text": text,
        "start": start,
        "end": end,
        "row_range": None,
        "item_range": None,
        "lines": line and (line, line + text.count("\n")),
        "sections": sections,
    }
    return replace(
        piece,
        chunk=chunk.model_copy(update=changes),
        cut_before=bool(chunk.text[: part.start].strip()),
        cut_after=bool(chunk.text[part.end :].strip()),
    )


def most_telling(
    piece: Piece, words: Sequence[Span], fits: Callable[[Piece], bool]
) -> Piece | None:
    """The sentences of a piece around those with the most of `words`, as many as fit.

    `words` are the spans of its text that speak for the query. None if not one sentence fits.
    """
    text = piece.chunk.text
    boundaries = Boundaries(text)
    starts = {int(at) for kind in ("sentence", "line") for at in boundaries.of(kind)}
    edges = sorted({0, len(text)} | starts)
    counts = [sum(start <= word.start < end for word in words) for start, end in pairwise(edges)]
    first = max(range(len(counts)), key=lambda index: (counts[index], -index))
    last = first + 1

    def part(first: int, last: int) -> Piece:
        inside = text[edges[first] : edges[last]]
        start = edges[first] + len(inside) - len(inside.lstrip())
        return clipped(piece, Span(start, edges[first] + len(inside.rstrip())))

    if not any(counts) or not fits(part(first, last)):
        return None
    while True:
        sides = [(counts[last], first, last + 1)] if last < len(counts) else []
        sides += [(counts[first - 1], first - 1, last)] if first else []
        wider = [(a, b) for _, a, b in sorted(sides, key=lambda side: -side[0]) if fits(part(a, b))]
        if not wider:
            return part(first, last)
        first, last = wider[0]
