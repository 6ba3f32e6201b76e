"""How an ONNX model is to be run, and how to find that out from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from lagotto.documents import Record
from lagotto.embedders.base import EmbedderInfo
from lagotto.errors import ConfigError

CONFIG_FILE = "lagotto.json"
MODEL_FILES = ("onnx/model.onnx", "model.onnx")


class OnnxConfig(Record):
    """One ONNX embedding model; file names are relative to its folder.

    `pooling` makes one vector of the token vectors: their mean, or the first one (`cls`); a graph
    that pools by itself is taken as it is. Prefixes are put in front of the text. Texts run
    together while they fit in `batch_tokens`, padding included; 1 runs every text alone, as a
    dynamically quantised graph needs, whose vectors would otherwise depend on their neighbours.
    """

    model_id: str = Field(min_length=1)
    dimension: int = Field(ge=1)
    max_tokens: int = Field(ge=8)
    pooling: Literal["mean", "cls"]
    query_prefix: str = ""
    document_prefix: str = ""
    cosine_floor: float = Field(default=0.0, ge=-1.0, lt=1.0)
    alphabets: tuple[str, ...] = ()
    model_file: str = MODEL_FILES[0]
    tokenizer_file: str = "tokenizer.json"
    batch_tokens: int = Field(default=128, ge=1)

    @property
    def info(self) -> EmbedderInfo:
        """The part that everyone needs to know."""
        return EmbedderInfo(
            model_id=self.model_id,
            dimension=self.dimension,
            max_tokens=self.max_tokens,
            cosine_floor=self.cosine_floor,
            alphabets=self.alphabets,
        )


def read_config(folder: Path) -> OnnxConfig:
    """The configuration of the model in `folder`.

    `lagotto.json` decides; what it leaves out is taken from the files that sentence-transformers
    keeps beside a model. ConfigError names a key that is missing, unknown or wrong.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; name the one that holds the ONNX model")
    settings = {**_conventions(folder), **_read_object(folder / CONFIG_FILE)}
    try:
        return OnnxConfig.model_validate(settings)
    except ValidationError as exc:
        found = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
        )
        raise ConfigError(
            f"the model in {folder} can't be used as configured ({found}); "
            f"set the keys in {folder / CONFIG_FILE}"
        ) from exc


def _conventions(folder: Path) -> dict[str, Any]:
    """What sentence-transformers' own files say, as far as they are there."""
    model = _read_object(folder / "config.json")
    pooling = _read_object(folder / "1_Pooling" / "config.json")
    limits = _read_object(folder / "sentence_bert_config.json")
    modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
    files = [name for name in MODEL_FILES if (folder / name).is_file()]
    said = {
        "model_id": folder.resolve().name,
        "dimension": pooling.get("word_embedding_dimension", model.get("hidden_size")),
        "max_tokens": limits.get("max_seq_length", model.get("max_position_embeddings")),
        "pooling": next((name for name, key in modes.items() if pooling.get(key)), None),
        "model_file": files[0] if files else None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; nothing if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} can't be read as JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}, but must hold a JSON object")
    return value
