from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.embedders import EMBEDDERS, create_embedder
from lagotto.embedders.openai import OpenAIEmbedder
from lagotto.errors import ConfigError, UnknownNameError, WeightsError
from lagotto.registry import Registry
from lagotto.testing.hash_embedder import HashEmbedder


def test_an_embedder_is_passed_through() -> None:
    embedder = HashEmbedder()
    assert create_embedder(embedder) is embedder


def test_names_give_their_models() -> None:
    assert create_embedder("minilm").info.model_id == "all-MiniLM-L6-v2"
    assert create_embedder("minilm-int8").info.model_id == "all-MiniLM-L6-v2-int8"
    assert create_embedder("openai:text-embedding-3-large").info.dimension == 3072


def test_only_the_first_colon_separates() -> None:
    embedder = create_embedder("openai:nomic-embed-text:latest?dimension=768")
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder.config.model == "nomic-embed-text:latest"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'word2vec'.*minilm, minilm-int8, onnx, openai"):
        create_embedder("word2vec:300")


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=str(tmp_path)):
        create_embedder(f"minilm:{tmp_path}")


@pytest.mark.parametrize("spec", ["onnx", "onnx:", "openai", "openai:"])
def test_what_must_follow_the_colon(spec: str) -> None:
    with pytest.raises(ConfigError, match=f"{spec.rstrip(':')}:(FOLDER|MODEL)"):
        create_embedder(spec)


def test_a_registered_factory_gets_what_follows_the_colon() -> None:
    registry = Registry[object](EMBEDDERS.family, group=EMBEDDERS.group, builtin={})
    registry.register("hash", lambda rest: HashEmbedder(model_id=rest))
    factory = registry.get("hash")
    assert callable(factory)
    assert factory("mine").info.model_id == "mine"
