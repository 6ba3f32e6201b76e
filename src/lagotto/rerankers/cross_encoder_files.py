"""The files of a cross-encoder: where they are, and what they say of its limits."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagotto.documents import digest
from lagotto.errors import ConfigError, RerankError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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
