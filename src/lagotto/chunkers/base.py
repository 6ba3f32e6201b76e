"""The chunker contract, the registry of chunkers, and the sizes that a chunker id carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lagotto._internal.registry import Registry
from lagotto._internal.tokens import Tokenizer
from lagotto.documents import Chunk, Document, Span, chunk_id
from lagotto.errors import ConfigError, native_panics

SMALLEST_CHUNK = 8
"""Tokens. In a smaller chunk a single character of some scripts might not fit."""

DEFAULT_CHUNKER = "prose:256/32"


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document into chunks, without I/O; the same document always gives the same chunks.

    Contract, for any document:

    - `document.text[chunk.start:chunk.end] == chunk.text`;
    - every character that is not white space is in at least one chunk of the finest level; a
      text of white space has no chunks, and no chunk is blank;
    - chunks of one level are in order: starts and ends both ascend, and `ordinal` counts from 0;
    - `token_count` is the tokenizer's count for `chunk.text`, and at most the chunker's size
      (except for a single character with more tokens than that);
    - neighbours share at most as many tokens as the chunker's overlap;
    - children are inside their parent, and `parent_id` is its id;
    - ids are unique within the document, and change with the content and the chunker.
    """

    @property
    def id(self) -> str:
        """Name and parameters, e.g. `recursive:256/32`; the same id gives the same chunks."""
        ...

    def chunk(self, document: Document) -> list[Chunk]:
        """Return the chunks of `document`, parents before children."""
        ...


def chunk_document(chunker: Chunker, document: Document) -> list[Chunk]:
    """The chunks of a document; one without text has an empty chunk under its title.

    So a catalogue entry that is only a title is found, cited and counted as other documents are.
    """
    if not document.is_only_title:
        with native_panics("the chunker"):  # one of another package may use any library
            return chunker.chunk(document)
    return [
        Chunk(
            id=chunk_id(document, chunker.id, "flat", Span(0, 0)),
            collection=document.collection,
            document_id=document.id,
            chunker_id=chunker.id,
            ordinal=0,
            start=0,
            end=0,
            text="",
            token_count=0,
        )
    ]


ChunkerFactory = Callable[[str, Tokenizer], Chunker]
"""Creates a chunker from the part of its id after the colon, and a tokenizer."""


def parse_sizes(name: str, parameters: str, defaults: tuple[int, ...]) -> tuple[int, ...]:
    """Parse sizes such as `256/32`, with `defaults` for missing ones.

    The last number is the overlap; the others are chunk sizes in descending order. ConfigError if
    the sizes are invalid.
    """
    form = f"{name}:{'/'.join(str(number) for number in defaults)}"
    try:
        numbers = [int(part) for part in parameters.split("/")] if parameters else []
    except ValueError:
        raise ConfigError(f"{name}:{parameters} is not a valid id; write {form}") from None
    if len(numbers) > len(defaults):
        raise ConfigError(f"{name}:{parameters} has too many numbers; write {form}")
    *sizes, overlap = (*numbers, *defaults[len(numbers) :])
    if len(numbers) < len(defaults):
        overlap = min(overlap, sizes[-1] // 4)
    half, problem = sizes[-1] // 2, ""
    if min(sizes) < SMALLEST_CHUNK:
        problem = f"the chunk size must be at least {SMALLEST_CHUNK} tokens"
    elif sizes != sorted(sizes, reverse=True):
        problem = "parents must be larger than children"
    elif not 0 <= overlap <= half:
        limits = f"between 0 and half the chunk size ({half})"
        problem = f"the overlap is {overlap}; it must be {limits}"
    if problem:
        raise ConfigError(f"{name}:{parameters}: {problem}")
    return (*sizes, overlap)


class ChunkerRegistry(Registry[ChunkerFactory]):
    """Creates chunkers from ids such as `recursive:256/32`; a bare name has default sizes."""

    def create(
        self,
        chunker_id: str,
        *,
        tokenizer: Tokenizer,
        size: int | None = None,
        overlap: int | None = None,
    ) -> Chunker:
        """Create the chunker with this id, optionally with another size or overlap.

        The full id is `id` of the result. The size is that of the smallest chunks; a default
        overlap is adapted to it.
        """
        name, _, parameters = chunker_id.partition(":")
        make = self.get(name)
        chunker = make(parameters, tokenizer)
        if size is None and overlap is None:
            return chunker
        try:
            *larger, finest, former = map(int, chunker.id.partition(":")[2].split("/"))
        except ValueError:
            raise ConfigError(
                f"the chunker {chunker.id} has no size and overlap; leave out max_chunk_tokens "
                "and overlap_tokens, or choose another chunker"
            ) from None
        new = finest if size is None else size
        shared = min(former, new // 4) if overlap is None else overlap
        return make("/".join(map(str, (*larger, new, shared))), tokenizer)


_STRATEGIES = {
    "auto": "AutoChunker", "prose": "prose", "section": "section", "recursive": "recursive",
    "sentence": "sentence", "heading": "heading", "markdown": "heading", "page": "page",
    "parent-child": "ParentChildChunker", "code": "code", "document": "DocumentChunker",
}  # fmt: skip

CHUNKERS = ChunkerRegistry(
    "chunker",
    group="lagotto.chunkers",
    builtin={name: f"lagotto.chunkers.strategies:{made}" for name, made in _STRATEGIES.items()},
)
