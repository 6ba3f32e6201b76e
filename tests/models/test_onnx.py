"""Models are loaded with prepacked weights, except for a command that runs them once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from lagotto.embedders.onnx import MINILM
from lagotto.errors import EmbeddingError, WeightsError
from lagotto.models.onnx import OnnxSession, without_prepacking
from lagotto.models.tokenizer import HfTokenizer
from tests.cli.conftest import write_files
from tests.cli.running import run

MODEL = MINILM.find()


@pytest.fixture
def prepacked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each model that is loaded, whether it is prepacked."""
    found: list[bool] = []
    load = onnxruntime.InferenceSession

    def noted(path: str, options: onnxruntime.SessionOptions, **others: Any) -> Any:
        try:
            found.append(options.get_session_config_entry("session.disable_prepacking") != "1")
        except RuntimeError:  # not set
            found.append(True)
        return load(path, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", noted)
    return found


def session() -> OnnxSession:
    path = MODEL / "onnx" / "model.onnx"
    return OnnxSession(path, unusable=WeightsError, failed=EmbeddingError)


def test_a_model_is_prepacked_unless_it_runs_once(prepacked: list[bool]) -> None:
    texts = HfTokenizer(MODEL / "tokenizer.json").model_inputs(["which dog?"], max_tokens=64)
    with without_prepacking():
        output, _ = session().run(texts)
    usual, _ = session().run(texts)
    assert prepacked == [False, True]
    assert np.abs(output - usual).max() < 1e-4


@pytest.mark.parametrize("command", ["search", "retrieve", "context"])
def test_commands_with_one_question(command: str, tmp_path: Path, prepacked: list[bool]) -> None:
    base = tmp_path / "kb.db"
    assert run("--kb", base, "add", write_files(tmp_path / "notes")).code == 0
    assert run("--kb", base, command, "which dog finds truffles?").code == 0
    assert prepacked == [True, False]
