"""Cross-encoders on this machine's CPU: a model that reads query and passage together.

Pairs run in very small batches of like length, each on one thread, several threads side by side;
on a CPU that beats large batches, where everything is padded to the longest.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lagotto.concurrency import available_cpus, run_all
from lagotto.documents import in_context, storable
from lagotto.errors import ConfigError, RerankError
from lagotto.models.onnx import OnnxSession
from lagotto.rerankers.base import LOGIT, Candidate, Judgement, Scale, Verdict
from lagotto.rerankers.cross_encoder_files import CrossEncoderFiles, hub_folder

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MOST_THREADS = 8
BATCH_TOKENS = 512
"""Pairs run together while they fit in, padding included."""


class CrossEncoderReranker:
    """Scores each passage, under its document's title, with an ONNX cross-encoder.

    What is too long is cut at the end, the longer of the two first. A model with one output gives
    the log-odds of being relevant; of two outputs (no, yes) the difference is taken. Files are
    loaded on first use; `threads` is how many batches run side by side, by default one per CPU.
    """

    def __init__(self, folder: Path | str, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ConfigError(f"threads is {threads}, but must be 1 or more")
        self._files = CrossEncoderFiles.found_in(Path(folder))
        self._threads = threads or min(available_cpus(), MOST_THREADS)
        self._pool = self._new_pool()
        self._loading = threading.Lock()
        self._loaded: tuple[Tokenizer, OnnxSession] | None = None

    @property
    def id(self) -> str:
        """The folder's name, and what tells its files from others."""
        return f"cross-encoder:{self._files.model.parent.name}#{self._files.fingerprint}"

    @property
    def scale(self) -> Scale:
        """Log-odds."""
        return LOGIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The model's score of each candidate."""
        if not candidates:
            return Judgement([])
        loop = asyncio.get_running_loop()
        scores = np.empty(len(candidates))
        pairs = [(storable(query), storable(in_context(one.title, one.text))) for one in candidates]
        encodings = await loop.run_in_executor(self._pool, self._encode, pairs)

        async def score(batch: list[int]) -> None:
            some = [encodings[index] for index in batch]
            scores[batch] = await loop.run_in_executor(self._pool, self._score, some)

        await run_all(_batches(encodings), score, workers=self._threads)
        return Judgement([Verdict(float(value)) for value in scores])

    async def close(self) -> None:
        """Let go of the model and the threads; the next call loads them again."""
        pool, self._pool = self._pool, self._new_pool()
        self._loaded = None
        await asyncio.to_thread(pool.shutdown)

    def _encode(self, pairs: list[tuple[str, str]]) -> list[Encoding]:
        tokenizer, _ = self._model()
        return tokenizer.encode_batch(pairs)

    def _score(self, encodings: list[Encoding]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        _, session = self._model()
        output, _ = session.run(encodings)
        logits = output.astype(np.float64).reshape(len(encodings), -1)
        if logits.shape[1] > 2 or not np.isfinite(logits).all():
            raise RerankError(
                f"{self._files.model} gave {logits.shape[1]} numbers per pair, or none that are "
                "finite; a cross-encoder gives one or two"
            )
        return logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0.0)

    def _model(self) -> tuple[Tokenizer, OnnxSession]:
        with self._loading:
            if self._loaded is None:
                session = OnnxSession(self._files.model, unusable=RerankError, failed=RerankError)
                self._loaded = self._files.load_tokenizer(), session
            return self._loaded

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="rerank")


def _batches(encodings: Sequence[Encoding]) -> Iterator[list[int]]:
    """Group pairs of like length, longest first."""
    order = sorted(range(len(encodings)), key=lambda index: -len(encodings[index]))
    while order:
        size = max(1, BATCH_TOKENS // max(1, len(encodings[order[0]])))
        chosen, order = order[:size], order[size:]
        yield chosen


def from_name(place: str) -> CrossEncoderReranker:
    """`cross-encoder:FOLDER`, or `cross-encoder:ORG/NAME` for a model of the Hugging Face hub."""
    if not place:
        raise ConfigError("cross-encoder needs the model's folder: cross-encoder:FOLDER")
    return CrossEncoderReranker(Path(place) if Path(place).is_dir() else hub_folder(place))
