"""The chunker contract, the registry of chunkers, and the sizes that a chunker id carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError
from lagotto.registry import Registry
from lagotto.tokens import Tokenizer

SMALLEST_CHUNK = 8
"""Tokens. Below this a single character of some scripts might not fit."""

DEFAULT_CHUNKER = "recursive:256/32"


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document into chunks. Pure: no I/O, the same document always gives the same chunks.

    Contract, for any document:

    - `document.text[chunk.start:chunk.end] == chunk.text`;
    - every character that is not white space lies in at least one chunk of the finest level; a
      text of nothing but white space has no chunks, and no chunk is blank;
    - chunks of one level are in order: starts and ends both ascend, `ordinal` counts them;
    - `token_count` is what the tokenizer counts for `chunk.text`, and is at most the chunker's
      size (only a single character that has more tokens than that is larger);
    - neighbours share at most as many tokens as the chunker's overlap;
    - children lie inside their parent, whose id they carry;
    - ids are unique within the document, and change when the content or the chunker does.
    """

    @property
    def id(self) -> str:
        """Name and parameters, e.g. `recursive:256/32`: what was cut by one id was cut alike."""
        ...

    def chunk(self, document: Document) -> list[Chunk]:
        """The chunks of `document`, parents before children."""
        ...


ChunkerFactory = Callable[[str, Tokenizer], Chunker]
"""Makes a chunker from the part of its id behind the colon, and the tokenizer that counts."""


def parse_sizes(name: str, parameters: str, defaults: tuple[int, ...]) -> tuple[int, ...]:
    """`"256/32"` as numbers, missing ones from `defaults`; ConfigError if they can't be sizes.

    The last number is the overlap; each of the others is a chunk size, from large to small.
    """
    form = f"{name}:{'/'.join(str(number) for number in defaults)}"
    try:
        given = [int(part) for part in parameters.split("/")] if parameters else []
    except ValueError:
        raise ConfigError(f"{name}:{parameters} should look like {form}") from None
    if len(given) > len(defaults):
        raise ConfigError(f"{name}:{parameters} has too many numbers; it should look like {form}")
    *sizes, overlap = (*given, *defaults[len(given) :])
    if len(given) < len(defaults):
        overlap = min(overlap, sizes[-1] // 4)
    if min(sizes) < SMALLEST_CHUNK:
        raise ConfigError(
            f"{name}:{parameters}: a chunk needs a size of at least {SMALLEST_CHUNK} tokens"
        )
    if sizes != sorted(sizes, reverse=True):
        raise ConfigError(f"{name}:{parameters}: parents must be larger than children")
    if not 0 <= overlap <= sizes[-1] // 2:
        raise ConfigError(
            f"{name}:{parameters}: an overlap of {overlap} must lie between 0 and half the chunk "
            f"size ({sizes[-1] // 2})"
        )
    return (*sizes, overlap)


class ChunkerRegistry(Registry[ChunkerFactory]):
    """Makes chunkers from ids such as `recursive:256/32`; a bare name takes its defaults."""

    def create(
        self,
        chunker_id: str,
        *,
        tokenizer: Tokenizer,
        size: int | None = None,
        overlap: int | None = None,
    ) -> Chunker:
        """The chunker of that id, with another size or overlap if these are given.

        What it is called in full is its own `id`. The size is that of its smallest chunks.
        """
        name, _, parameters = chunker_id.partition(":")
        make = self.get(name)
        chunker = make(parameters, tokenizer)
        if size is None and overlap is None:
            return chunker
        return make(_resized(chunker.id, size, overlap), tokenizer)


def _resized(chunker_id: str, size: int | None, overlap: int | None) -> str:
    """The parameters of a chunker with another size; an overlap that is not given fits it."""
    try:
        *larger, finest, former = map(int, chunker_id.partition(":")[2].split("/"))
    except ValueError:
        raise ConfigError(
            f"the chunker {chunker_id} has no size and overlap that could be set; "
            "leave max_chunk_tokens and overlap_tokens out, or name another one"
        ) from None
    new = finest if size is None else size
    shared = min(former, new // 4) if overlap is None else overlap
    return "/".join(map(str, (*larger, new, shared)))


CHUNKERS = ChunkerRegistry(
    "chunker",
    group="lagotto.chunkers",
    builtin={
        "recursive": "lagotto.chunkers.recursive:recursive",
        "sentence": "lagotto.chunkers.sentence:sentence",
        "heading": "lagotto.chunkers.heading:heading",
        "markdown": "lagotto.chunkers.heading:heading",
        "page": "lagotto.chunkers.page:page",
        "parent-child": "lagotto.chunkers.parent_child:ParentChildChunker",
        "code": "lagotto.chunkers.code:code",
        "document": "lagotto.chunkers.whole:DocumentChunker",
    },
)
