"""`parent-child:PARENT/CHILD/OVERLAP`: small chunks to search, large ones to read."""

from __future__ import annotations

from lagotto.chunkers.base import parse_sizes
from lagotto.chunkers.spans import ChunkBuilder, Cutter
from lagotto.documents import Chunk, Document, Span
from lagotto.tokens import Tokenizer


class ParentChildChunker:
    """Cuts parents as `recursive` does, without overlap, and each parent into children."""

    def __init__(self, parameters: str, tokenizer: Tokenizer) -> None:
        sizes = parse_sizes("parent-child", parameters, (1024, 256, 32))
        self._parent_size, self._child_size, self._overlap = sizes
        self.id = f"parent-child:{'/'.join(str(number) for number in sizes)}"
        self._tokenizer = tokenizer

    def chunk(self, document: Document) -> list[Chunk]:
        cutter = Cutter(document, self._tokenizer)
        maker = ChunkBuilder(document, self.id)
        text = Span(0, len(document.text))
        parents = maker.make(cutter.cut(text, size=self._parent_size, overlap=0), level="parent")
        families = [
            (cut, parent)
            for parent in parents
            for cut in cutter.cut(
                Span(parent.start, parent.end), size=self._child_size, overlap=self._overlap
            )
        ]
        children = [cut for cut, _ in families]
        return parents + maker.make(
            children, level="child", parents=[parent for _, parent in families]
        )
