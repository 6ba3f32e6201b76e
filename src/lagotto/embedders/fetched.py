"""Embedders of known models whose files were fetched: `gte-small`, `potion-base-8M` and others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from lagotto.documents import Record
from lagotto.embedders import minilm
from lagotto.embedders.base import Embedder, EmbedderFactory
from lagotto.embedders.catalog import MODELS, KnownModel, known_model
from lagotto.embedders.onnx import OnnxEmbedder
from lagotto.embedders.static import StaticConfig, StaticEmbedder
from lagotto.errors import ConfigError, WeightsError
from lagotto.models.fetched import State
from lagotto.models.weights import ModelFiles


def from_fetched(name: str, rest: str = "") -> Embedder:
    """Create the known model `name` from the folder of fetched models.

    WeightsError names the command that fetches it.
    """
    if rest:
        raise ConfigError(
            f'"{name}:{rest}": {name} takes no parameters; write onnx:{rest} for a model in a '
            "folder of your own"
        )
    model = MODELS[name]
    model.files.check_present()
    return create_from_files(model, model)


def create_from_files(model: KnownModel, files: ModelFiles) -> Embedder:
    """Create the embedder that a model's configuration describes, with these files."""
    if isinstance(model.config, StaticConfig):
        return StaticEmbedder(files, config=model.config)
    return OnnxEmbedder(files, config=model.config)


class ModelStatus(Record):
    """Whether the files of a known model are on this machine, and where.

    The MiniLM models are also present if the package with their weights is.
    """

    name: str
    state: State
    folder: str


def model_status(name: str) -> ModelStatus:
    """Look for the files of a known model, by their names and sizes."""
    model = known_model(name)
    state, folder = model.files.state(), model.files.folder
    if name.partition("-int8")[0] == "minilm":
        state, folder = _minilm_status(folder)
    return ModelStatus(name=name, state=state, folder=str(folder))


def _minilm_status(otherwise: Path) -> tuple[State, Path]:
    try:
        return "present", minilm.PUBLISHED.find()
    except WeightsError:
        return "missing", otherwise


FACTORIES: Mapping[str, EmbedderFactory] = {name: partial(from_fetched, name) for name in MODELS}
