"""Chunkers by id."""

from __future__ import annotations

from lagotto.chunkers.base import Chunker, ChunkerFactory
from lagotto.registry import Registry
from lagotto.tokens import Tokenizer

DEFAULT_CHUNKER = "recursive:256/32"


class ChunkerRegistry(Registry[ChunkerFactory]):
    """Makes chunkers from ids such as `recursive:256/32`; a bare name takes its defaults."""

    def create(self, chunker_id: str, *, tokenizer: Tokenizer) -> Chunker:
        """The chunker of that id. What it is called in full is its own `id`."""
        name, _, parameters = chunker_id.partition(":")
        return self.get(name)(parameters, tokenizer)


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
    },
)
