"""Embedding on the CPU with ONNX Runtime.

Texts run one by one or in very small batches, each on one thread, several threads in parallel. On a
CPU that beats large batches spread over all threads: nothing is padded, no thread waits for
another, and no text's vector depends on its neighbours.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lagotto.concurrency import available_cpus, run_all
from lagotto.documents import Vectors
from lagotto.embedders.base import EmbedderInfo, Role, TokenVectors, checked, normalised
from lagotto.embedders.onnx_config import OnnxConfig, read_config
from lagotto.errors import ConfigError, EmbeddingError, WeightsError
from lagotto.models.onnx import OnnxSession
from lagotto.models.tokenizer import HfTokenizer
from lagotto.models.weights import FolderFiles, ModelFiles

if TYPE_CHECKING:
    from tokenizers import Encoding

MOST_THREADS = 8
WINDOW = 1024
"""Texts tokenised and sorted by length at a time, to bound memory."""


class OnnxEmbedder:
    """Runs an ONNX model; its files are loaded on first use.

    `threads` texts run in parallel, by default one per CPU up to eight.
    """

    def __init__(
        self, files: ModelFiles, *, config: OnnxConfig, threads: int | None = None
    ) -> None:
        if threads is not None and threads < 1:
            raise ConfigError(f"threads is {threads}; it must be 1 or more")
        self.config = config
        self._files = files
        self._threads = threads or min(available_cpus(), MOST_THREADS)
        self._pool = self._new_pool()
        self._info = config.info
        self._tokenizer_lock = threading.Lock()
        self._graph_lock = threading.Lock()
        self._tokenizer: HfTokenizer | None = None
        self._graph: OnnxGraph | None = None

    @property
    def info(self) -> EmbedderInfo:
        """The model as its configuration describes it."""
        return self._info

    @property
    def tokenizer(self) -> HfTokenizer:
        """The model's tokenizer, loaded on first use."""
        with self._tokenizer_lock:
            if self._tokenizer is None:
                self._tokenizer = HfTokenizer(self._files.tokenizer_path())
            return self._tokenizer

    def preload(self) -> None:
        """Start to load the model on one of the threads that run it."""
        if self._graph is None:
            self._pool.submit(self._loaded_graph)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one unit vector per text, in order."""
        rows = np.empty((len(texts), self.config.dimension), dtype=np.float32)

        def embed_batch(batch: _Batch) -> None:
            pooled = self._loaded_graph().pooled(batch.encodings, pooling=self.config.pooling)
            rows[batch.positions] = checked(
                normalised(pooled), info=self.info, count=len(batch.positions)
            )

        await self._run_batches(texts, embed_batch, role=role)
        return rows

    async def token_vectors(
        self, texts: Sequence[str], *, role: Role = "document"
    ) -> list[TokenVectors]:
        """Return the token vectors of each text.

        EmbeddingError for a graph that pools by itself and has no token vectors.
        """
        found: dict[int, TokenVectors] = {}
        shift = len(self._prefix(role))

        def embed_batch(batch: _Batch) -> None:
            rows = self._loaded_graph().token_vectors(batch.encodings)
            for position, encoding, vectors in zip(
                batch.positions, batch.encodings, rows, strict=True
            ):
                spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
                starts, ends = np.maximum(spans - shift, 0).T
                found[position] = TokenVectors(starts, ends, vectors)

        await self._run_batches(texts, embed_batch, role=role)
        return [found[position] for position in range(len(texts))]

    async def close(self) -> None:
        """Free the model and the threads; the next call loads them again."""
        pool, self._pool = self._pool, self._new_pool()
        self._graph = None
        await asyncio.to_thread(pool.shutdown)

    async def _run_batches(
        self, texts: Sequence[str], work: Callable[[_Batch], None], *, role: Role
    ) -> None:
        loop = asyncio.get_running_loop()

        async def run(batch: _Batch) -> None:
            await loop.run_in_executor(self._pool, work, batch)

        prefix = self._prefix(role)
        for start in range(0, len(texts), WINDOW):
            window = [prefix + text for text in texts[start : start + WINDOW]]
            encodings = await loop.run_in_executor(self._pool, self._encode, window)
            batches = _batches(encodings, start=start, budget=self.config.batch_tokens)
            await run_all(batches, run, workers=self._threads)

    def _encode(self, texts: Sequence[str]) -> list[Encoding]:
        return self.tokenizer.model_inputs(texts, max_tokens=self.config.max_tokens)

    def _prefix(self, role: Role) -> str:
        return self.config.query_prefix if role == "query" else self.config.document_prefix

    def _loaded_graph(self) -> OnnxGraph:
        with self._graph_lock:
            if self._graph is None:
                self._graph = OnnxGraph(self._files.model_path())
            return self._graph

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="embed")


@dataclass(frozen=True, slots=True)
class _Batch:
    positions: list[int]
    encodings: list[Encoding]


def _batches(encodings: Sequence[Encoding], *, start: int, budget: int) -> Iterator[_Batch]:
    """Group texts of similar length, longest first, into batches of at most `budget` tokens."""
    order = sorted(range(len(encodings)), key=lambda index: -len(encodings[index]))
    while order:
        size = max(1, budget // len(encodings[order[0]]))
        chosen, order = order[:size], order[size:]
        yield _Batch([start + index for index in chosen], [encodings[index] for index in chosen])


def from_folder(folder: str, *, threads: int | None = None) -> OnnxEmbedder:
    """Create `onnx:FOLDER`, configured by `lagotto.json` and the files beside it."""
    if not folder:
        raise ConfigError("missing folder; write onnx:FOLDER")
    config = read_config(Path(folder))
    files = FolderFiles(Path(folder), tokenizer=config.tokenizer_file, model=config.model_file)
    return OnnxEmbedder(files, config=config, threads=threads)


class OnnxGraph:
    """A loaded embedding model, safe to run from several threads at once.

    Its output is (texts, tokens, dimension), or (texts, dimension) if it pools by itself.
    """

    def __init__(self, path: Path) -> None:
        self._session = OnnxSession(path, unusable=WeightsError, failed=EmbeddingError)

    def pooled(self, texts: Sequence[Encoding], *, pooling: Literal["mean", "cls"]) -> Vectors:
        """Return one vector per text, not normalised."""
        hidden, mask = self._session.run(texts)
        if hidden.ndim == 2:
            return hidden
        if pooling == "cls":
            return hidden[:, 0]
        weights = mask[:, :, np.newaxis].astype(np.float32)
        mean: Vectors = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return mean

    def token_vectors(self, texts: Sequence[Encoding]) -> list[Vectors]:
        """Return the token vectors of each text, without padding."""
        hidden, _ = self._session.run(texts)
        if hidden.ndim != 3:
            raise EmbeddingError(
                f"this model returns one vector per text (shape {hidden.shape}), not per token; "
                "export it without its pooling layer"
            )
        return [row[: len(text)] for row, text in zip(hidden, texts, strict=True)]
