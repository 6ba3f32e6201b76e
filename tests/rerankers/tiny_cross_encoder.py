"""A tiny but real ONNX cross-encoder: each word of the passage adds its weight."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.embedders.tiny_model import tiny_tokenizer

WEIGHTS = {"[PAD]": 50.0, "[UNK]": 0.25, "[CLS]": 9.0, "[SEP]": 0.0, "red": 1.0, "dog": -2.0}
"""Padding would count for much, if it were not masked."""


def make_cross_encoder(
    folder: Path, *, labels: int = 1, at: str = "onnx/model.onnx", max_tokens: int = 16
) -> Path:
    """Write a model with that many outputs; with two, the second is the sum and the first -1."""
    (folder / at).parent.mkdir(parents=True, exist_ok=True)
    tiny_tokenizer([*WEIGHTS]).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": max_tokens}))
    onnx.save(_graph(labels), str(folder / at))
    return folder


def _graph(labels: int) -> onnx.ModelProto:
    """Words of the second text only (token type 1), and no padding, add up."""
    names = ["input_ids", "attention_mask", "token_type_ids"]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["word"]),
        helper.make_node("Mul", ["attention_mask", "token_type_ids"], ["counted"]),
        helper.make_node("Cast", ["counted"], ["share"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["word", "share"], ["added"]),
        helper.make_node("ReduceSum", ["added", "axes"], ["sum"], keepdims=1),
        helper.make_node("Pad", ["sum", "pads", "other"], ["logits"], mode="constant"),
    ]
    table = np.array(list(WEIGHTS.values()), dtype=np.float32)
    constants: dict[str, NDArray[np.generic]] = {
        "table": table,
        "axes": np.array([1], dtype=np.int64),
        "pads": np.array([0, labels - 1, 0, 0], dtype=np.int64),
        "other": np.array(-1.0, dtype=np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in names
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])],
        initializer=[numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
