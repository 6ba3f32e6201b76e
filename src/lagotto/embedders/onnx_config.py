"""The configuration of an ONNX embedding model, read from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from lagotto.embedders.base import ModelConfig
from lagotto.errors import ConfigError
from lagotto.models.weights import MODEL_FILES, read_json_object

CONFIG_FILE = "lagotto.json"


class OnnxConfig(ModelConfig):
    """The configuration of one ONNX embedding model; file names are relative to its folder.

    `pooling` turns token vectors into one vector: their mean, or the first one (`cls`); the output
    of a graph that pools by itself is used as it is. Prefixes are put before the text. A batch has
    at most `batch_tokens` tokens, padding included; with 1 every text runs alone, as a dynamically
    quantised graph needs, whose vectors would otherwise depend on their neighbours.
    """

    max_tokens: int = Field(ge=8)
    pooling: Literal["mean", "cls"]
    query_prefix: str = ""
    document_prefix: str = ""
    model_file: str = MODEL_FILES[0]
    tokenizer_file: str = "tokenizer.json"
    batch_tokens: int = Field(default=128, ge=1)


def read_config(folder: Path) -> OnnxConfig:
    """Read the configuration of the model in `folder`.

    `lagotto.json` wins; missing keys come from the files that sentence-transformers keeps beside a
    model. ConfigError names the key that is missing, unknown or invalid.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; give the folder of the ONNX model")
    settings = {**_conventions(folder), **read_json_object(folder / CONFIG_FILE)}
    try:
        return OnnxConfig.model_validate(settings)
    except ValidationError as exc:
        found = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
        )
        raise ConfigError(
            f"invalid configuration of the model in {folder} ({found}); "
            f"set the keys in {folder / CONFIG_FILE}"
        ) from exc


def _conventions(folder: Path) -> dict[str, Any]:
    """Settings found in the files of sentence-transformers."""
    model = read_json_object(folder / "config.json")
    pooling = read_json_object(folder / "1_Pooling" / "config.json")
    limits = read_json_object(folder / "sentence_bert_config.json")
    modes = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
    files = [name for name in MODEL_FILES if (folder / name).is_file()]
    found = {
        "model_id": folder.resolve().name,
        "dimension": pooling.get("word_embedding_dimension", model.get("hidden_size")),
        "max_tokens": limits.get("max_seq_length", model.get("max_position_embeddings")),
        "pooling": next((name for name, key in modes.items() if pooling.get(key)), None),
        "model_file": files[0] if files else None,
    }
    return {key: value for key, value in found.items() if value is not None}
