"""`document`: the whole text as one chunk, for bases that are chunked at query time."""

from __future__ import annotations

from lagotto.chunkers.spans import ChunkBuilder, Cut
from lagotto.documents import Chunk, Document
from lagotto.errors import ConfigError
from lagotto.tokens import Tokenizer


class DocumentChunker:
    """Creates one chunk of any length; a blank text has none."""

    id = "document"

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        if parameters:
            raise ConfigError(f"document takes no parameters, got {parameters!r}; write document")
        self._tokenizer = tokenizer

    def chunk(self, document: Document) -> list[Chunk]:
        text = document.text
        if not text.strip():
            return []
        (tokens,) = self._tokenizer.count([text])
        return ChunkBuilder(document, self.id).make([Cut(0, len(text), tokens)])
