from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from lagotto.embedders import EMBEDDERS, onnx
from lagotto.embedders.base import FETCHED, EmbeddingModel
from lagotto.embedders.catalog import MODELS
from lagotto.embedders.onnx import OnnxConfig
from lagotto.embedders.static import StaticConfig
from lagotto.errors import UnknownNameError
from lagotto.models.fetch import known_model

PACKAGED = {"minilm", "minilm-int8"}


def test_every_known_model_is_an_embedder() -> None:
    assert {*FETCHED, *PACKAGED} == set(MODELS)
    assert set(MODELS) <= set(EMBEDDERS.names())
    for name in MODELS:
        assert callable(EMBEDDERS.get(name))


def test_minilm_is_described_as_it_runs() -> None:
    assert MODELS["minilm"].config == onnx.CONFIG
    assert MODELS["minilm-int8"].config == onnx.INT8_CONFIG


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
class TestEveryModel:
    def test_its_name_is_a_folder_name(self, model: EmbeddingModel) -> None:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", model.name)
        assert MODELS[model.name] is model

    def test_its_files_are_inside_its_folder(self, model: EmbeddingModel) -> None:
        assert isinstance(model.config, OnnxConfig | StaticConfig)
        assert set(model.hashes) == {model.config.tokenizer_file, model.config.model_file}
        for path in map(PurePosixPath, model.hashes):
            assert not path.is_absolute()
            assert ".." not in path.parts

    def test_its_hashes_are_sha256(self, model: EmbeddingModel) -> None:
        for hashes in model.hashes.values():
            assert all(re.fullmatch(r"[0-9a-f]{64}", item) for item in hashes)

    def test_8_bit_models_have_an_id_of_their_own_and_run_texts_alone(
        self, model: EmbeddingModel
    ) -> None:
        if model.quantised_from is None:
            return
        full = MODELS[model.quantised_from]
        assert isinstance(model.config, OnnxConfig)
        assert model.config.model_id == f"{full.config.model_id}-int8"
        assert model.config.batch_tokens == 1
        assert model.hashes[model.config.model_file] == frozenset()


def test_model_ids_are_unique() -> None:
    assert len({model.config.model_id for model in MODELS.values()}) == len(MODELS)


@pytest.mark.parametrize("name", ["nope", "", "../gte-small", "gte-small/../../x", "GTE-small"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"available: minilm, .*gte-small"):
        known_model(name)
