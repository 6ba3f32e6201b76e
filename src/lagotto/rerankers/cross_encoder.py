"""Cross-encoders on the CPU: a model that reads query and passage together.

Pairs run in very small batches of similar length, each on one thread, several threads in parallel.
On a CPU that beats large batches, in which everything is padded to the longest pair.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lagotto.concurrency import available_cpus, run_all
from lagotto.documents import digest, in_context, storable
from lagotto.errors import ConfigError, RerankError
from lagotto.models.onnx import OnnxSession
from lagotto.rerankers.base import LOGIT, Candidate, Judgement, ScoreScale, Verdict

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
    def scale(self) -> ScoreScale:
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


MODEL_FILES = ("onnx/model.onnx", "model.onnx")
WANTED = ["*.json", *MODEL_FILES, *(f"{name}_data" for name in MODEL_FILES)]
LONGEST = 512
"""Tokens of a pair, special ones included, whatever more a model could read: passages are short."""


@dataclass(frozen=True, slots=True)
class CrossEncoderFiles:
    """A model in the layout of the Hugging Face hub, as the ms-marco cross-encoders have it."""

    model: Path
    tokenizer: Path
    max_tokens: int

    @classmethod
    def found_in(cls, folder: Path) -> CrossEncoderFiles:
        """The files in `folder`; ConfigError names what is missing."""
        models = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
        tokenizer = folder / "tokenizer.json"
        if not models or not tokenizer.is_file():
            raise ConfigError(
                f"{folder} holds no cross-encoder; it needs {' or '.join(MODEL_FILES)}, and "
                "tokenizer.json"
            )
        return cls(models[0], tokenizer, _max_tokens(folder))

    @property
    def fingerprint(self) -> str:
        """Changes whenever a file is replaced."""
        files = sorted([self.tokenizer, *self.model.parent.glob(f"{self.model.name}*")])
        stats = [(path.name, path.stat()) for path in files]
        facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        return digest(str(self.model.resolve()), facts, self.max_tokens)[:16]

    def load_tokenizer(self) -> Tokenizer:
        """Encodes pairs, none longer than the model can read."""
        from tokenizers import Tokenizer

        try:
            tokenizer: Tokenizer = Tokenizer.from_file(str(self.tokenizer))
        except Exception as exc:  # the library raises nothing more specific
            raise RerankError(f"{self.tokenizer} is no usable tokenizer: {exc}") from exc
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens, strategy="longest_first")
        return tokenizer


def hub_folder(name: str) -> Path:
    """The folder of a hub model that is on this machine, or may be fetched.

    Nothing is fetched unless LAGOTTO_DOWNLOAD is 1.
    """
    advice = "give the folder of a model, as in cross-encoder:models/ms-marco-MiniLM-L6-v2"
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ConfigError(f"there is no folder {name}, and it is no name on the hub; {advice}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise ConfigError(
            f"there is no folder {name}, and models of the hub need `pip install "
            f"huggingface_hub`; {advice}"
        ) from exc
    allowed = os.environ.get("LAGOTTO_DOWNLOAD") == "1"
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=not allowed))
    except (OSError, ValueError) as exc:
        why = str(exc) if allowed else "it was not fetched before, and LAGOTTO_DOWNLOAD is not 1"
        raise ConfigError(f"{name} is no folder and not on this machine: {why}; {advice}") from exc


def _max_tokens(folder: Path) -> int:
    """The least of what the files beside the model say; some say 1e30."""
    said = [
        _read_object(folder / "config.json").get("max_position_embeddings"),
        _read_object(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    return min([LONGEST, *(int(limit) for limit in said if isinstance(limit, int | float))])


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; nothing if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} can't be read as JSON: {exc}") from exc
    return value if isinstance(value, dict) else {}
