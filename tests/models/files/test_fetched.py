from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from lagotto.embedders.base import EmbeddingModel
from lagotto.embedders.onnx import CONFIG
from lagotto.errors import WeightsError
from lagotto.models.fetch import UNFINISHED, workplace
from lagotto.models.files import MANIFEST, KnownModel

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


def fill(folder: Path) -> Path:
    for name, content in FILES.items():
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
