"""Documents in: read files, cut them into chunks, embed the chunks, find the nearest to a question.

python examples/documents_in.py [FILE_OR_FOLDER...]
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER
from lagotto.documents import Chunk, Document, in_context
from lagotto.embedders import Embedder, create_embedder
from lagotto.readers import LoadReport, load

QUESTION = "Why does a chunk never cut a table row in two?"


async def nearest(
    question: str, documents: list[Document], embedder: Embedder
) -> list[tuple[float, Document, Chunk]]:
    """The three chunks whose vectors are nearest to the question's."""
    chunker = CHUNKERS.create(DEFAULT_CHUNKER, tokenizer=embedder.tokenizer)
    chunks = [(item, chunk) for item in documents for chunk in chunker.chunk(item)]
    texts = [in_context(item.title, chunk.text) for item, chunk in chunks]
    vectors = await embedder.embed(texts, role="document")
    (query,) = await embedder.embed([question], role="query")
    scored = zip((vectors @ query).tolist(), chunks, strict=True)
    best = sorted(scored, key=lambda pair: -pair[0])[:3]
    return [(score, item, chunk) for score, (item, chunk) in best]


def main() -> None:
    paths = sys.argv[1:] or [str(Path(__file__).parent.parent / "docs")]
    report = LoadReport()
    documents = list(report.documents(load(paths)))
    print(report, "", QUESTION, sep="\n")
    for score, item, chunk in asyncio.run(nearest(QUESTION, documents, create_embedder("minilm"))):
        print(f"\n{score:.3f}  {item.title}, {' > '.join(chunk.heading_path)}")
        print(f"       {' '.join(chunk.text.split())[:200]}")


if __name__ == "__main__":
    main()
