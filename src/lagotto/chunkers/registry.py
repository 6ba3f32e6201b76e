"""Chunkers by id."""

from __future__ import annotations

from lagotto.chunkers.base import Chunker, ChunkerFactory
from lagotto.errors import ConfigError
from lagotto.registry import Registry
from lagotto.tokens import Tokenizer

DEFAULT_CHUNKER = "recursive:256/32"


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
