"""Cross-encoders on the CPU: a model that reads query and passage together.

Pairs run in very small batches of similar length, each on one thread, several threads in parallel.
On a CPU that beats large batches, in which everything is padded to the longest pair.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lagotto.documents import digest, in_context, storable
from lagotto.errors import ConfigError, RerankError, native_panics
from lagotto.models.files import MODEL_FILES, read_json_object
from lagotto.models.onnx import ModelThreads, OnnxSession, batches_by_length
from lagotto.models.tokenizer import load_tokenizer
from lagotto.rerankers.base import LOGIT, Candidate, Judgement, Verdict

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

BATCH_TOKENS = 512
"""The size of a batch, padding included."""

WANTED = ["*.json", *MODEL_FILES, *(f"{name}_data" for name in MODEL_FILES)]
LONGEST = 512
_HUB_NAME = re.compile(r"\A[\w.-]++/[\w.-]++")
"""Maximum tokens of a pair, special tokens included; passages are short."""


class CrossEncoderReranker:
    """Scores each passage, under its document's title, with an ONNX cross-encoder.

    A pair that is too long is truncated at the end, the longer text first. A model with one output
    gives the log-odds of relevance; of two outputs (no, yes) the difference is used. Files are
    loaded on first use. `threads` batches run in parallel, by default one per CPU up to eight.
    """

    scale = LOGIT
    reads_only_text = True

    def __init__(self, folder: Path | str, *, threads: int | None = None) -> None:
        self._threads = ModelThreads("rerank", threads)
        self._files = CrossEncoderFiles.found_in(Path(folder))
        self._loading = threading.Lock()
        self._loaded: tuple[Tokenizer, OnnxSession] | None = None

    @property
    def id(self) -> str:
        """The folder's name and a fingerprint of its files."""
        return f"cross-encoder:{self._files.model.parent.name}#{self._files.fingerprint}"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        if not candidates:
            return Judgement([])
        scores = np.empty(len(candidates))
        pairs = [(storable(query), storable(in_context(one.title, one.text))) for one in candidates]
        encodings = await self._threads.run(self._encode, pairs)

        def score(batch: list[int]) -> None:
            scores[batch] = self._score([encodings[index] for index in batch])

        await self._threads.run_all(batches_by_length(encodings, budget=BATCH_TOKENS), score)
        return Judgement([Verdict(float(value)) for value in scores])

    async def close(self) -> None:
        self._loaded = None
        await self._threads.close()

    def _encode(self, pairs: list[tuple[str, str]]) -> list[Encoding]:
        tokenizer, _ = self._model()
        with native_panics("the tokenizer of the cross-encoder", RerankError):
            return tokenizer.encode_batch(pairs)

    def _score(self, encodings: list[Encoding]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        _, session = self._model()
        output, _ = session.run(encodings)
        logits = output.astype(np.float64).reshape(len(encodings), -1)
        if logits.shape[1] > 2 or not np.isfinite(logits).all():
            raise RerankError(
                f"{self._files.model} returned {logits.shape[1]} values per pair, or values that "
                "are not finite; use a cross-encoder with one or two finite outputs"
            )
        return logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0.0)

    def _model(self) -> tuple[Tokenizer, OnnxSession]:
        with self._loading:
            if self._loaded is None:
                session = OnnxSession(self._files.model, unusable=RerankError, failed=RerankError)
                self._loaded = self._files.load_tokenizer(), session
            return self._loaded


def from_name(name: str) -> CrossEncoderReranker:
    """Create `cross-encoder:FOLDER`, or `cross-encoder:ORG/NAME` for a Hugging Face hub model."""
    if not name:
        raise ConfigError("missing model; write cross-encoder:FOLDER or cross-encoder:ORG/NAME")
    return CrossEncoderReranker(Path(name) if Path(name).is_dir() else hub_folder(name))


@dataclass(frozen=True, slots=True)
class CrossEncoderFiles:
    """The files of a cross-encoder in the layout of the Hugging Face hub."""

    model: Path
    tokenizer: Path
    max_tokens: int

    @classmethod
    def found_in(cls, folder: Path) -> CrossEncoderFiles:
        """Find the files in `folder`; ConfigError names what is missing."""
        models = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
        tokenizer = folder / "tokenizer.json"
        if not models or not tokenizer.is_file():
            raise ConfigError(
                f"{folder} is not the folder of a cross-encoder; it needs "
                f"{' or '.join(MODEL_FILES)}, and tokenizer.json"
            )
        return cls(models[0], tokenizer, _max_tokens(folder))

    @property
    def fingerprint(self) -> str:
        """A hash that changes whenever a file is replaced."""
        files = sorted([self.tokenizer, *self.model.parent.glob(f"{self.model.name}*")])
        stats = [(path.name, path.stat()) for path in files]
        facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        return digest(str(self.model.resolve()), facts, self.max_tokens)[:16]

    def load_tokenizer(self) -> Tokenizer:
        """Load the tokenizer; it truncates pairs to the length that the model reads."""
        tokenizer = load_tokenizer(self.tokenizer, unusable=RerankError)
        tokenizer.enable_truncation(self.max_tokens, strategy="longest_first")
        return tokenizer


def hub_folder(name: str) -> Path:
    """The local folder of a hub model, downloaded first if LAGOTTO_DOWNLOAD is 1."""
    advice = "give the folder of a model, as in cross-encoder:models/ms-marco-MiniLM-L6-v2"
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(f"{name} is neither a folder nor a hub name ORG/NAME; {advice}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as exc:
        raise ConfigError(
            f"there is no folder {name}; for hub models run `pip install huggingface_hub`, or "
            f"{advice}"
        ) from exc
    allowed = os.environ.get("LAGOTTO_DOWNLOAD") == "1"
    try:
        return Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=not allowed))
    except (OSError, ValueError) as exc:
        why = str(exc) if allowed else "not downloaded yet, and LAGOTTO_DOWNLOAD is not 1"
        raise ConfigError(f"the model {name} is not on this machine: {why}; {advice}") from exc


def _max_tokens(folder: Path) -> int:
    """The smallest limit in the files beside the model; some of them have 1e30."""
    limits = [
        read_json_object(folder / "config.json").get("max_position_embeddings"),
        read_json_object(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    return min([LONGEST, *(int(limit) for limit in limits if isinstance(limit, int | float))])
