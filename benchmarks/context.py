"""CPU time of `context` beside that of `retrieve`, in a base of a few large documents.

    python benchmarks/context.py [--documents 10] [--pages 195] [--queries 30]

Documents are as long as annual reports: pages of about 3,000 characters. Their vectors are hashed
words, to save time; queries are embedded by MiniLM, and its tokenizer counts. Milliseconds of CPU,
medians of interleaved calls.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document, Page, Vectors
from lagotto.embedders import create_embedder
from lagotto.embedders.base import Role
from lagotto.testing.hash_embedder import HashEmbedder

WORDS = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split()
WORDS_PER_PAGE = 450


class HalfFreeEmbedder:
    """Hashed vectors; but a query costs what it costs with MiniLM, whose tokens are counted."""

    def __init__(self) -> None:
        self._hashed = HashEmbedder(dimension=384)
        self._minilm = create_embedder("minilm")
        self.info = self._hashed.info
        self.tokenizer = self._minilm.tokenizer

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of hashed words."""
        if role == "query":
            await self._minilm.embed(texts, role=role)
        return await self._hashed.embed(texts, role=role)

    async def close(self) -> None:
        """Close the model."""
        await self._minilm.close()


def documents(count: int, pages: int) -> Iterator[Document]:
    """Reports with pages, the same ones every time."""
    chance = random.Random(0)
    for number in range(count):
        text, spans = "", []
        for page in range(1, pages + 1):
            words = chance.choices(WORDS, k=WORDS_PER_PAGE)
            lines = [" ".join(words[at : at + 15]) + "." for at in range(0, len(words), 15)]
            start = len(text)
            text += "\n".join(lines) + "\n\n"
            spans.append(Page(start=start, end=len(text), number=page))
        yield Document(id=str(number), title=f"Report {number}", text=text, pages=tuple(spans))


async def measure(count: int, pages: int, queries: int) -> dict[str, float]:
    """The median CPU time of each call."""
    embedder = HalfFreeEmbedder()
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncKnowledgeBase(Path(folder) / "kb.db", embedder=embedder) as base:
            await base.add(*documents(count, pages))
            chance = random.Random(1)
            calls: dict[str, Callable[[str], Awaitable[object]]] = {
                "retrieve": base.retrieve,
                "context": base.context,
                "context, 4,000 tokens": lambda query: base.context(query, max_tokens=4_000),
            }
            spent: dict[str, list[float]] = {name: [] for name in calls}
            for number in range(queries + 2):
                query = " ".join(chance.choices(WORDS, k=6))
                for name, call in calls.items():
                    start = time.process_time()
                    await call(query)
                    if number >= 2:  # the first ones warm up
                        spent[name].append(1000 * (time.process_time() - start))
    return {name: statistics.median(times) for name, times in spent.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=10)
    parser.add_argument("--pages", type=int, default=195)
    parser.add_argument("--queries", type=int, default=30)
    options = parser.parse_args()
    found = asyncio.run(measure(options.documents, options.pages, options.queries))
    for name, milliseconds in found.items():
        print(f"{name:<22} {milliseconds:6.1f} ms  {milliseconds / found['retrieve']:4.1f}")


if __name__ == "__main__":
    main()
