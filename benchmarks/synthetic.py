"""Made-up texts and vectors of any number: those of `scale` and all that is measured like it.

Texts are Zipf-distributed words, vectors a mixture of topics; a query is near a chunk and has some
of its words.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Chunk, Document, Span, Vectors, chunk_id
from lagotto.embedders.base import EmbedderInfo, Role
from lagotto.filters import And
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.stores.base import Entry
from lagotto.stores.registry import create_store

WORDS = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split()
"""English words, for what embeds texts."""
DIMENSION = 384
CHUNKS_PER_DOCUMENT = 5
WORDS_PER_CHUNK = 120
VOCABULARY = 50_000
TOPICS = 50
MODEL = "synthetic"
BATCH = 200


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    vector: NDArray[np.float32]
    topic: int


class GivenVectors:
    """An embedder that has been told the vectors of its texts."""

    info = EmbedderInfo(model_id=MODEL, dimension=DIMENSION)
    tokenizer = ApproximateTokenizer()

    def __init__(self) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        return np.stack([self.vectors[text] for text in texts])

    async def close(self) -> None:
        """Nothing is held."""


class Corpus:
    """Documents of five chunks: the same ones for the same size."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self._chance = np.random.default_rng(0)
        spectrum = (1 + np.arange(DIMENSION)) ** -0.35
        self._centres = self._chance.normal(size=(TOPICS, DIMENSION)) * spectrum
        self._spectrum = spectrum
        letters = str.maketrans("0123456789", "bcdfghklmn")  # no identifiers, nothing to stem
        self.words = np.array([f"{number:05d}".translate(letters) for number in range(VOCABULARY)])
        weights = 1 / (1 + np.arange(VOCABULARY)) ** 1.07
        self._cumulative = np.cumsum(weights / weights.sum())
        self.vectors = np.empty((chunks, DIMENSION), np.float32)
        self.topics = np.empty(chunks, np.int64)
        self.numbers = np.empty(chunks, np.int64)
        self._sample: list[tuple[int, str]] = []

    def entries(self) -> Iterator[Entry]:
        for number in range(self.chunks // CHUNKS_PER_DOCUMENT):
            yield self._entry(number)

    def _entry(self, number: int) -> Entry:
        topic = int(self._chance.integers(TOPICS))
        lengths = self._chance.integers(
            WORDS_PER_CHUNK // 2, WORDS_PER_CHUNK * 3 // 2, CHUNKS_PER_DOCUMENT
        )
        drawn = [np.searchsorted(self._cumulative, self._chance.random(n)) for n in lengths]
        texts = [" ".join(self.words[row]) for row in drawn]
        noise = self._chance.normal(size=(CHUNKS_PER_DOCUMENT, DIMENSION)) * self._spectrum
        vectors = _unit(self._centres[topic] + 0.9 * noise)
        rows = slice(number * CHUNKS_PER_DOCUMENT, (number + 1) * CHUNKS_PER_DOCUMENT)
        self.vectors[rows], self.topics[rows], self.numbers[rows] = vectors, topic, number % 100
        if number % max(1, self.chunks // CHUNKS_PER_DOCUMENT // 400) == 0:
            self._sample.append((number * CHUNKS_PER_DOCUMENT, texts[0]))
        return make_entry(f"d{number}", texts, vectors, {"topic": topic, "number": number % 100})

    def queries(self, count: int) -> list[Query]:
        """Near a chunk that is there, with five of its words."""
        chance = np.random.default_rng(1)
        queries = []
        for index in range(count):
            row, text = self._sample[index % len(self._sample)]
            words = chance.choice(sorted(set(text.split())), 5, replace=False)
            noise = chance.normal(size=DIMENSION) * self._spectrum
            vector = _unit((self.vectors[row] + 0.02 * noise)[None])[0]
            queries.append(Query(" ".join(words), vector, int(self.topics[row])))
        return queries


class Lines:
    """A chunker: every line is a chunk."""

    id = "given"

    def chunk(self, document: Document) -> list[Chunk]:
        chunks, start = [], 0
        for ordinal, text in enumerate(document.text.split("\n")):
            span = Span(start, start + len(text))
            chunks.append(
                Chunk(
                    id=chunk_id(document, self.id, "flat", span),
                    collection=document.collection,
                    document_id=document.id,
                    chunker_id=self.id,
                    ordinal=ordinal,
                    start=span.start,
                    end=span.end,
                    text=text,
                    token_count=WORDS_PER_CHUNK,
                )
            )
            start = span.end + 1
        return chunks


def make_entry(
    name: str, texts: Sequence[str], vectors: Vectors, metadata: dict[str, Any]
) -> Entry:
    document = Document(id=name, language="en", text="\n".join(texts), metadata=metadata)
    return Entry(document, Lines().chunk(document), vectors, MODEL)


def _unit(rows: NDArray[np.float64]) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


async def build(
    location: str,
    corpus: Corpus,
    text_index: str | None = None,
    vector_index: str | None = None,
) -> dict[str, float]:
    """Write the corpus into a new base and bring its indexes up to date; the seconds it took."""
    store = create_store(location, text_index=text_index, vector_index=vector_index)
    await store.open()
    wall, cpu = time.perf_counter(), time.process_time()
    batch: list[Entry] = []
    for entry in corpus.entries():
        batch.append(entry)
        if len(batch) == BATCH:
            await store.write(batch)
            batch = []
    await store.write(batch)
    written = time.perf_counter() - wall
    await store.update_indexes()
    async with store.view(And()):
        pass
    await store.close()
    total = time.perf_counter() - wall
    return {
        "write_s": round(written, 1),
        "index_s": round(total - written, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "chunks_per_s": round(corpus.chunks / total),
    }
