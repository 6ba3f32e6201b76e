"""Static embeddings: a text's vector is the mean of its tokens' vectors, looked up in a table."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lagotto._internal.concurrency import Lazy
from lagotto.documents import Vectors
from lagotto.embedders.base import ModelConfig, Role, checked, normalised
from lagotto.errors import WeightsError
from lagotto.models.files import ModelFiles
from lagotto.models.tokenizer import HfTokenizer

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays in a file, by name, mapped into memory; WeightsError for an invalid file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if not 0 < length <= LONGEST_HEADER:
                raise ValueError(f"its header has {length} bytes")
            header = json.loads(file.read(length))
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=LENGTH_BYTES + length)
        return {
            name: _array(entry, data) for name, entry in header.items() if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise WeightsError(f"can't load {path} as a safetensors file: {exc}") from exc


def _array(entry: dict[str, Any], data: NDArray[np.uint8]) -> NDArray[Any]:
    """The array that a header entry describes; ValueError if it does not fit its bytes."""
    dtype = np.dtype(TYPES[entry["dtype"]])
    start, end = entry["data_offsets"]
    shape = tuple(int(size) for size in entry["shape"])
    if not 0 <= start <= end <= len(data) or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of shape {shape} does not fit bytes {start} to {end}")
    return np.frombuffer(data[start:end], dtype=dtype).reshape(shape)


WINDOW = 256
"""Texts embedded at a time; a cancelled call stops between them."""


class StaticConfig(ModelConfig):
    """The configuration of a static model; file names are relative to its folder."""

    max_tokens: int = Field(default=512, ge=1)
    model_file: str = "model.safetensors"
    tokenizer_file: str = "tokenizer.json"

    def create(self, files: ModelFiles) -> StaticEmbedder:
        return StaticEmbedder(files, config=self)


class StaticEmbedder:
    """Looks tokens up in a table; its files are loaded on first use."""

    def __init__(self, files: ModelFiles, *, config: StaticConfig) -> None:
        self.info = self.config = config
        self._tokenizer = Lazy(lambda: HfTokenizer(files(config.tokenizer_file)))
        self._table = Lazy(lambda: StaticTable(files(config.model_file)))

    @property
    def tokenizer(self) -> HfTokenizer:
        return self._tokenizer()

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        parts = [
            await asyncio.to_thread(self._embed, texts[start : start + WINDOW])
            for start in range(0, len(texts), WINDOW)
        ]
        empty = np.empty((0, self.config.dimension), dtype=np.float32)
        return np.vstack([empty, *parts])

    async def close(self) -> None:
        self._table.drop()

    def _embed(self, texts: Sequence[str]) -> Vectors:
        table = self._table()
        ids = self.tokenizer.token_ids(texts, max_tokens=self.config.max_tokens)
        means = np.vstack([table.mean(tokens) for tokens in ids])
        return checked(normalised(means), info=self.info, count=len(texts))


class StaticTable:
    """The vectors of all tokens; a text without any of them gets their mean, near to nothing."""

    def __init__(self, path: Path) -> None:
        tensors = read_tensors(path)
        table = tensors.get("embeddings")
        if table is None or table.ndim != 2 or not table.size:
            raise WeightsError(
                f"{path} has no table of embeddings, but {', '.join(sorted(tensors)) or 'nothing'};"
                " give a model in the format of model2vec"
            )
        self._table: Vectors = table.astype(np.float32)
        mapping, weights = tensors.get("mapping"), tensors.get("weights")
        self._rows = None if mapping is None else mapping.astype(np.int64)
        self._weights = None if weights is None else weights.astype(np.float32)
        self._mean = self._table.mean(axis=0)

    def mean(self, tokens: NDArray[np.int64]) -> Vectors:
        """A vector in the direction of the tokens' weighted mean."""
        size = len(self._table) if self._rows is None else len(self._rows)
        if len(tokens) and tokens.max() >= size:
            raise WeightsError(
                f"token {tokens.max()} is not in the table of {size} tokens; "
                "the tokenizer belongs to another model"
            )
        rows = self._table[tokens if self._rows is None else self._rows[tokens]]
        if self._weights is not None:
            rows = rows * self._weights[tokens, np.newaxis]
        total: Vectors = rows.sum(axis=0)
        return total if total.any() else self._mean
