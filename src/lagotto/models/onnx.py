"""One ONNX model, loaded and run: token ids in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lagotto.errors import ConfigError, LagottoError

if TYPE_CHECKING:
    from tokenizers import Encoding

Output = NDArray[np.float32]
Mask = NDArray[np.int64]
"""1 for a token, 0 for padding: (texts, tokens)."""


class OnnxSession:
    """An ONNX model in memory; it may be run from several threads at once.

    A run uses the thread that it is called on, no other. A file that can't be loaded raises
    `unusable`, a run that fails raises `failed`.
    """

    def __init__(
        self, path: Path, *, unusable: type[LagottoError], failed: type[LagottoError]
    ) -> None:
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
            raise unusable(f"{path} can't be loaded as an ONNX model: {exc}") from exc
        self._failed = failed
        self._run_failures = (failures.Fail, failures.InvalidArgument, failures.RuntimeException)
        self._output = self._session.get_outputs()[0].name
        self._inputs = [item.name for item in self._session.get_inputs()]
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ConfigError(
                f"{path} asks for inputs that a text does not have: {', '.join(sorted(unknown))}; "
                "export the model for feature extraction or sequence classification"
            )

    def run(self, texts: Sequence[Encoding]) -> tuple[Output, Mask]:
        """The model's first output, one row per text, and which tokens are no padding."""
        shape = (len(texts), max(len(text) for text in texts))
        ids, mask, types = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text.ids
            mask[row, : len(text)] = 1
            types[row, : len(text)] = text.type_ids
        known = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            feeds = {name: known[name] for name in self._inputs}
            output = self._session.run([self._output], feeds)[0]
        except self._run_failures as exc:
            raise self._failed(f"the model failed on {shape[1]} tokens: {exc}") from exc
        return np.asarray(output, dtype=np.float32), mask
