"""One ONNX graph, loaded and run: token ids in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vectors
from lagotto.errors import ConfigError, EmbeddingError, WeightsError

if TYPE_CHECKING:
    from tokenizers import Encoding

Hidden = NDArray[np.float32]
"""What the graph gives: (texts, tokens, dimension), or (texts, dimension) if it pools itself."""


class OnnxGraph:
    """An ONNX model in memory; it may be run from several threads at once.

    A run uses the thread that it is called on, no other.
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as failures

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except (
            failures.Fail,
            failures.InvalidArgument,
            failures.InvalidGraph,
            failures.InvalidProtobuf,
            failures.NoSuchFile,
            failures.NotImplemented,
            failures.RuntimeException,
        ) as exc:
            raise WeightsError(f"{path} can't be loaded as an ONNX model: {exc}") from exc
        self._run_failures = (failures.Fail, failures.InvalidArgument, failures.RuntimeException)
        self._output = self._session.get_outputs()[0].name
        self._inputs = [item.name for item in self._session.get_inputs()]
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(
                f"{path} asks for inputs that no embedder has: {', '.join(sorted(unknown))}; "
                "export the model for feature extraction"
            )

    def pooled(self, texts: Sequence[Encoding], *, pooling: Literal["mean", "cls"]) -> Vectors:
        """One vector per text, not yet scaled."""
        hidden, mask = self._run(texts)
        if hidden.ndim == 2:
            return hidden
        if pooling == "cls":
            return hidden[:, 0]
        weights = mask[:, :, np.newaxis].astype(np.float32)
        mean: Vectors = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return mean

    def token_vectors(self, texts: Sequence[Encoding]) -> list[Vectors]:
        """Each text's token vectors, padding left out."""
        hidden, _ = self._run(texts)
        if hidden.ndim != 3:
            raise EmbeddingError(
                f"this model gives one vector per text (shape {hidden.shape}), not one per token; "
                "export it without its pooling layer"
            )
        return [row[: len(text)] for row, text in zip(hidden, texts, strict=True)]

    def _run(self, texts: Sequence[Encoding]) -> tuple[Hidden, NDArray[np.int64]]:
        shape = (len(texts), max(len(text) for text in texts))
        ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text.ids
            mask[row, : len(text)] = 1
        known = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros(shape, dtype=np.int64),
        }
        try:
            feeds = {name: known[name] for name in self._inputs}
            hidden = self._session.run([self._output], feeds)[0]
        except self._run_failures as exc:
            raise EmbeddingError(f"the model failed on {shape[1]} tokens: {exc}") from exc
        return np.asarray(hidden, dtype=np.float32), mask
