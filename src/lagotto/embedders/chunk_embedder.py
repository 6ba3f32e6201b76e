"""Embed the chunks of documents, in the same way for stored and for query-time chunks.

A window is a text as the model reads it. A chunk's vector comes from one window, or from several if
the chunk is larger than the model's window.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, count, pairwise, starmap
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagotto._internal.tokens import TokenRuler
from lagotto.documents import Chunk, Document, Span, Vector, Vectors, in_context
from lagotto.embedders import Embedder, TokenEmbedder
from lagotto.embedders.base import TokenVectors, checked, normalised
from lagotto.errors import ConfigError, NativeEmbeddingError, native_panics

Pooling = Literal["chunk", "late"]
Works = Sequence[tuple[Document, Sequence[Chunk]]]
_Rows = Sequence[tuple[Document, dict[int, Chunk]]]
"""The chunks of documents by the rows of their vectors."""

SPECIAL_TOKENS = 4
"""Reserved in a window for special tokens and for words cut at an edge."""

OWN_SHARE = 0.5
"""The largest share of a window for its own chunks if there are several; the rest is context."""

REPORTED = 32
"""Chunks between two reports of the progress."""

WINDOWS_AT_ONCE = 64
"""Windows whose token vectors are in memory at a time."""


class ChunkEmbedder:
    """Embeds the chunks of documents.

    With `pooling="chunk"` a chunk is embedded by itself, under its title and headings if `headers`
    is set. With `"late"` (late chunking) the model reads as much surrounding text as fits in its
    window, and the chunk's vector is the mean of its own tokens; a chunk that fills the window has
    the same vector either way. A chunk larger than the window is embedded in parts.
    """

    def __init__(
        self, embedder: Embedder, *, pooling: Pooling = "chunk", headers: bool = True
    ) -> None:
        if pooling not in ("chunk", "late"):
            raise ConfigError(f"pooling is {pooling!r}; it must be 'chunk' or 'late'")
        if pooling == "late" and not isinstance(embedder, TokenEmbedder):
            raise ConfigError(
                f"pooling is 'late', but {type(embedder).__name__} ({embedder.info.model_id}) has "
                "no token vectors; use a local model such as minilm, or pooling='chunk'"
            )
        self.embedder = embedder
        self._pooling = pooling
        self._headers = headers

    @property
    def model_id(self) -> str:
        """Identifies the vectors: the embedder's id and settings other than the default."""
        late = "+late" if self._pooling == "late" else ""
        bare = "" if self._headers else "+bare"
        return f"{self.embedder.info.model_id}{late}{bare}"

    def with_headers(self, headers: bool) -> ChunkEmbedder:
        return ChunkEmbedder(self.embedder, pooling=self._pooling, headers=headers)

    def text_of(self, document: Document, chunk: Chunk) -> str | None:
        """All that the vector of a chunk depends on: title, headings, text; None if it is late."""
        if self._pooling == "late":
            return None
        return self._header(document, chunk) + chunk.text

    async def embed(
        self,
        works: Works,
        *,
        known: Mapping[str, Vector] | None = None,
        embedded: Callable[[int], None] | None = None,
    ) -> list[Vectors]:
        """Return a unit vector for each chunk that is not a parent, per document, in order.

        Those of texts in `known` are not computed. `embedded` is called, where the model runs here,
        with the number of chunks done so far.
        """
        rows = count()
        new = [
            (document, {next(rows): chunk for chunk in chunks if chunk.level != "parent"})
            for document, chunks in works
        ]
        edges = list(accumulate((len(chunks) for _, chunks in new), initial=0))
        unit = np.empty((edges[-1], self.embedder.info.dimension), np.float32)
        if known:
            for document, chunks in new:
                for row, chunk in tuple(chunks.items()):
                    text = self.text_of(document, chunk)
                    if text is not None and text in known:
                        unit[row] = known[text]
                        del chunks[row]
        sums = np.zeros(unit.shape)
        await self._add_all(new, sums, embedded)
        is_new = [row for _, chunks in new for row in chunks]
        unit[is_new] = normalised(sums[is_new])
        return [unit[start:end] for start, end in pairwise(edges)]

    async def _add_all(
        self, works: _Rows, rows: NDArray[np.float64], embedded: Callable[[int], None] | None
    ) -> None:
        """Add the vectors of each chunk's parts, or of its tokens, to its row."""
        plan = self._shared if self._pooling == "late" else self._single
        windows = await asyncio.to_thread(list, chain.from_iterable(starmap(plan, works)))
        if isinstance(self.embedder, TokenEmbedder) and self._pooling == "late":
            await self._add_tokens(self.embedder, windows, rows)
            return
        here = isinstance(self.embedder, TokenEmbedder) and embedded is not None
        step = REPORTED if here else max(1, len(windows))
        for start in range(0, len(windows), step):
            some = windows[start : start + step]
            with native_panics("the embedder", NativeEmbeddingError):
                raw = await self.embedder.embed([window.text for window in some], role="document")
            vectors = checked(raw, info=self.embedder.info, count=len(some))
            of_chunks = [window.parts[0].row for window in some]
            np.add.at(rows, np.array(of_chunks, np.int64), vectors)
            if embedded is not None:
                embedded(of_chunks[-1] + 1)

    async def _add_tokens(
        self, embedder: TokenEmbedder, windows: Sequence[_Window], rows: NDArray[np.float64]
    ) -> None:
        for start in range(0, len(windows), WINDOWS_AT_ONCE):
            some = windows[start : start + WINDOWS_AT_ONCE]
            read = await embedder.token_vectors([window.text for window in some], role="document")
            for window, tokens in zip(some, read, strict=True):
                for part in window.parts:
                    rows[part.row] += tokens.vectors[_own(tokens, window, part)].sum(axis=0)

    async def embed_each(
        self,
        works: Works,
        *,
        known: Mapping[str, Vector] | None = None,
        embedded: Callable[[int], None] | None = None,
    ) -> list[Vectors | NativeEmbeddingError]:
        """As `embed`, with an error in place of the vectors of a document that no model takes."""
        try:
            return list(await self.embed(works, known=known, embedded=embedded))
        except NativeEmbeddingError as exc:
            if len(works) == 1:
                return [exc]
            alone = [await self.embed_each([work], known=known) for work in works]
            return [result for each in alone for result in each]

    def _single(self, document: Document, chunks: Mapping[int, Chunk]) -> Iterator[_Window]:
        for row, chunk in chunks.items():
            # Rows have no room to lose: of a table, what a window does not take goes into another.
            most = self._room(document, chunk) if chunk.context else self._max_tokens
            if self._tokens(chunk) <= most:
                yield self._window(document, Span(chunk.start, chunk.end), {row: chunk})
            else:
                ruler = TokenRuler(document.text, self.embedder.tokenizer)
                yield from self._in_parts(document, chunk, row, ruler)

    def _shared(self, document: Document, chunks: Mapping[int, Chunk]) -> Iterator[_Window]:
        """Plan windows for several neighbouring chunks, with as much text around them as fits."""
        ruler = TokenRuler(document.text, self.embedder.tokenizer)
        waiting = deque(chunks.items())
        while waiting:
            row, first = waiting.popleft()
            if self._tokens(first) > self._max_tokens:
                yield from self._in_parts(document, first, row, ruler)
                continue
            room = self._room(document, first)
            limit = ruler.forward(first.start, int(room * OWN_SHARE))
            group = {row: first}
            while waiting and waiting[0][1].end <= limit:
                group.update([waiting.popleft()])
            end = max(chunk.end for chunk in group.values())
            # extended on both sides to the room there is, evenly if possible
            spare = max(0, room - ruler.between(first.start, end))
            start = ruler.backward(first.start, spare // 2)
            wide_end = ruler.forward(end, spare - ruler.between(start, first.start))
            start = ruler.backward(first.start, spare - ruler.between(end, wide_end))
            yield self._window(document, Span(start, wide_end), group)

    def _in_parts(
        self, document: Document, chunk: Chunk, row: int, ruler: TokenRuler
    ) -> Iterator[_Window]:
        """Plan windows for the parts of a chunk that is larger than a window, of similar size."""
        tokens = self._tokens(chunk)
        size = math.ceil(tokens / math.ceil(tokens / self._room(document, chunk)))
        start = chunk.start
        while start < chunk.end:
            end = min(max(ruler.forward(start, size), start + 1), chunk.end)
            if document.text[start:end].strip():
                yield self._window(document, Span(start, end), {row: chunk})
            start = end

    def _window(self, document: Document, span: Span, chunks: dict[int, Chunk]) -> _Window:
        """The window of a span with some chunks by their rows, under the header of the first."""
        header = self._header(document, next(iter(chunks.values())))
        shift = len(header) - span.start
        parts = tuple(
            _Part(row, max(chunk.start, span.start) + shift, chunk.end + shift)
            for row, chunk in chunks.items()
        )
        return _Window(header + document.text[span.start : span.end], len(header), parts)

    @property
    def _max_tokens(self) -> int:
        return self.embedder.info.max_tokens or sys.maxsize

    def _tokens(self, chunk: Chunk) -> int:
        """The tokens that the model reads; a chunker counts other alphabets by their letters."""
        alphabets = self.embedder.info.alphabets
        if not alphabets or ("LATIN" in alphabets and chunk.text.isascii()):
            return chunk.token_count
        return self.embedder.tokenizer.count([chunk.text])[0]

    def _room(self, document: Document, chunk: Chunk) -> int:
        (header_tokens,) = self.embedder.tokenizer.count([self._header(document, chunk)])
        return max(self._max_tokens - header_tokens - SPECIAL_TOKENS, self._max_tokens // 2)

    def _header(self, document: Document, chunk: Chunk) -> str:
        if not self._headers and chunk.text:
            return ""
        return in_context(document.title, "", headings=chunk.heading_path, context=chunk.context)


class _Part(NamedTuple):
    """A chunk, or a part of one, in a window's text; `row` is the row of its vector."""

    row: int
    start: int
    end: int


class _Window(NamedTuple):
    """A text as the model reads it; its first `header` characters are not the document's text."""

    text: str
    header: int
    parts: tuple[_Part, ...]


def _own(tokens: TokenVectors, window: _Window, part: _Part) -> NDArray[np.bool_]:
    """Mask the tokens that start in a chunk; all of them if the window has no other text."""
    of_document = (tokens.ends > tokens.starts) & (tokens.starts >= window.header)
    own = of_document & (tokens.starts >= part.start) & (tokens.starts < part.end)
    if not own.any() or (own == of_document).all():
        return np.ones(len(own), np.bool_)
    return own
