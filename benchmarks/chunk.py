"""MB per second of every chunker on a long text, and of a splitter library beside them.

    python benchmarks chunk [--megabytes 10] [--rounds 3]

The text is this project's own documentation, repeated; rounds are interleaved, medians reported.
Install semantic-text-splitter to see it in the table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.embedders.onnx import MINILM, TOKENIZER

ROOT = Path(__file__).parent.parent
IDS = ["section", "recursive", "sentence", "heading", "page", "code", "parent-child"]


def sample(megabytes: float) -> str:
    """English prose of that size: Markdown pages of this project."""
    pages = sorted(ROOT.glob("src/lagotto/demo/corpus/**/*.md")) or sorted(ROOT.glob("**/*.md"))
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in pages)
    size = int(megabytes * 1_000_000)
    return (text * (size // len(text) + 1))[:size]


def candidates(text: str) -> dict[str, Callable[[], int]]:
    """What to time: each cuts the text and says how many chunks there are."""
    document = Document(text=text)
    tokenizer = MINILM().tokenizer
    jobs: dict[str, Callable[[], int]] = {}
    for name in IDS:
        chunker = CHUNKERS.create(name, tokenizer=tokenizer)
        jobs[chunker.id] = lambda chunker=chunker: len(chunker.chunk(document))  # type: ignore[misc]
    library = library_splitter()
    if library:
        sample_text = text[:1_000_000]  # it takes many seconds per megabyte
        jobs["semantic-text-splitter, 1 MB"] = lambda: len(library(sample_text))
    return jobs


def library_splitter() -> Callable[[str], list[tuple[int, str]]] | None:
    """semantic-text-splitter with the same tokenizer and sizes, if it is installed."""
    try:
        from semantic_text_splitter import TextSplitter
        from tokenizers import Tokenizer
    except ImportError:
        return None
    tokenizer = Tokenizer.from_file(str(MINILM.verified(TOKENIZER)))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    splitter = TextSplitter.from_huggingface_tokenizer(tokenizer, 256, overlap=32, trim=False)
    return lambda text: list(splitter.chunk_indices(text))


def measure(megabytes: float, rounds: int) -> dict[str, dict[str, float]]:
    """Medians over interleaved rounds, by chunker."""
    text = sample(megabytes)
    jobs = candidates(text)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    chunks: dict[str, int] = {}
    for _ in range(rounds):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            chunks[name] = job()
            seconds[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    table = {}
    for name, pairs in seconds.items():
        size = 1.0 if "1 MB" in name else len(text) / 1e6
        wall, cpu = (statistics.median(pair[index] for pair in pairs) for index in (0, 1))
        table[name] = {
            "chunks": chunks[name],
            "MB/s": round(size / wall, 2),
            "MB/CPU-s": round(size / cpu, 2),
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = measure(arguments.megabytes, arguments.rounds)
    print(f"{'chunker':32} {'chunks':>8} {'MB/s':>8} {'MB/CPU-s':>9}")
    for name, row in table.items():
        print(f"{name:32} {row['chunks']:8.0f} {row['MB/s']:8.2f} {row['MB/CPU-s']:9.2f}")
