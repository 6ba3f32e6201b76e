"""A tiny but real ONNX model with a tokenizer: each word has a fixed random vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from lagotto.embedders.catalog import MODELS
from lagotto.embedders.onnx import OnnxConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", "passage", "red", "green", "blue", "dog"]
DIMENSION = 6
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), DIMENSION)).astype(np.float32)


def make_model(
    folder: Path, *, pooled: bool = False, projected: bool = False, extra_input: str | None = None
) -> Path:
    """Write onnx/model.onnx and tokenizer.json.

    A pooled graph gives one vector per text; a projected one has a matrix that can be quantised.
    """
    (folder / "onnx").mkdir(parents=True)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    graph = _graph(pooled=pooled, projected=projected, extra_input=extra_input)
    onnx.save(graph, str(folder / "onnx/model.onnx"))
    return folder


def tiny_tokenizer(words: Sequence[str] = WORDS) -> Tokenizer:
    """A word is a token; others are unknown."""
    ids = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _graph(*, pooled: bool, projected: bool, extra_input: str | None) -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["hidden"])]
    shape: list[int | str] = ["batch", "tokens", DIMENSION]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["hidden", "axes"], ["output"], keepdims=0))
        shape = ["batch", DIMENSION]
    elif projected:
        nodes.append(helper.make_node("MatMul", ["hidden", "projection"], ["output"]))
    else:
        nodes.append(helper.make_node("Identity", ["hidden"], ["output"]))
    names = ["input_ids", *([extra_input] if extra_input else [])]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in names
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
        initializer=[
            numpy_helper.from_array(TABLE, "table"),
            *([numpy_helper.from_array(TABLE[-DIMENSION:], "projection")] if projected else []),
            numpy_helper.from_array(np.array([1], dtype=np.int64), "axes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def put_tiny(monkeypatch: pytest.MonkeyPatch, hashes: Mapping[str, frozenset[str]]) -> None:
    """The catalog has a tiny model as `gte-small`, with these hashes, and `gte-small-int8`."""
    config = MODELS["gte-small"].config.model_copy(update={"dimension": DIMENSION})
    assert isinstance(config, OnnxConfig)
    changes = {"hashes": hashes, "config": config, "megabytes": 1}
    tiny = MODELS["gte-small"].model_copy(update=changes)
    monkeypatch.setitem(MODELS, tiny.name, tiny)
    monkeypatch.setitem(MODELS, f"{tiny.name}-int8", tiny.eight_bit(config.eight_bit()))
