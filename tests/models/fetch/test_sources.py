from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from lagotto import Document, KnowledgeBase
from lagotto.embedders import create_embedder, onnx
from lagotto.embedders.base import EmbeddingModel
from lagotto.embedders.catalog import MODELS
from lagotto.embedders.onnx import OnnxEmbedder
from lagotto.errors import ConfigError, UnknownNameError, WeightsError
from lagotto.models.fetch import fetch_model, model_status
from lagotto.models.files import KnownModel
from tests.embedders.tiny_model import DIMENSION, make_model, put_tiny
from tests.models.local_hub import Fault, LocalHub

NAME = "gte-small"
ROOT = "/Xenova/gte-small/resolve/main/"


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAGOTTO_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model in a folder, as it is on the hub."""
    return make_model(tmp_path / "tiny", projected=True)


@pytest.fixture(autouse=True)
def tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddingModel:
    """The catalog has the tiny model under the name of a real one, with its hashes."""
    hashes = {name: frozenset({sha256(content).hexdigest()}) for name, content in files(folder)}
    put_tiny(monkeypatch, hashes)
    return MODELS[NAME]


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with LocalHub({ROOT + name: content for name, content in files(folder)}) as hub:
        monkeypatch.setenv("LAGOTTO_HUB", hub.url)
        yield hub


def files(folder: Path) -> list[tuple[str, bytes]]:
    return [(name, (folder / name).read_bytes()) for name in ("tokenizer.json", "onnx/model.onnx")]


def forget_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog has no hash of any file."""
    put_tiny(monkeypatch, dict.fromkeys(MODELS[NAME].hashes, frozenset[str]()))


def there(models: Path) -> list[str]:
    """What can be used: all that is in the folder, except unfinished work."""
    return sorted(path.name for path in models.glob("*") if path.name != ".fetching")


def unfinished(models: Path) -> list[str]:
    found = (models / ".fetching").rglob("*")
    return sorted(path.name for path in found if path.is_file() and path.name != "lock.db")


def test_from_a_hub(hub: LocalHub, models: Path) -> None:
    assert fetch_model(NAME) == models / NAME
    assert [path for path, _ in hub.fetched] == [
        ROOT + "tokenizer.json",
        ROOT + "onnx/model.onnx",
    ]
    assert model_status(NAME).state == "present"
    assert unfinished(models) == []


def test_it_is_not_fetched_twice(hub: LocalHub) -> None:
    fetch_model(NAME)
    fetch_model(NAME)
    assert len(hub.fetched) == 2


def test_from_another_hub(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_HUB", "http://127.0.0.1:1")
    fetch_model(NAME, source=hub.url + "/")
    assert model_status(NAME).state == "present"


def test_progress(hub: LocalHub, folder: Path) -> None:
    seen: dict[str, tuple[int, int | None]] = {}
    fetch_model(NAME, progress=lambda name, *now: seen.update({name: now}))
    assert seen == {name: (len(content), len(content)) for name, content in files(folder)}


@pytest.mark.parametrize("flat", [False, True])
def test_from_a_folder(folder: Path, models: Path, flat: bool) -> None:
    if flat:
        (folder / "onnx/model.onnx").rename(folder / "model.onnx")
    assert fetch_model(NAME, source=str(folder)) == models / NAME
    assert model_status(NAME).state == "present"
    assert (folder / "tokenizer.json").is_file(), "copied, not moved"


def test_links_in_a_folder_are_followed(folder: Path, tmp_path: Path) -> None:
    """As in the cache of the Hugging Face libraries."""
    snapshot = tmp_path / "snapshot"
    (snapshot / "onnx").mkdir(parents=True)
    for name, _ in files(folder):
        (snapshot / name).symlink_to(folder / name)
    copied = fetch_model(NAME, source=str(snapshot))
    assert not (copied / "onnx/model.onnx").is_symlink()


def test_a_folder_without_the_files(tmp_path: Path, models: Path) -> None:
    with pytest.raises(WeightsError, match=r"has no tokenizer\.json, which gte-small needs"):
        fetch_model(NAME, source=str(tmp_path))
    with pytest.raises(ConfigError, match="there is no folder"):
        fetch_model(NAME, source=str(tmp_path / "nowhere"))
    assert there(models) == []


async def test_the_fetched_model_embeds(folder: Path) -> None:
    fetch_model(NAME, source=str(folder))
    embedder = create_embedder(NAME)
    expected = create_embedder_of(folder)
    np.testing.assert_array_equal(
        await embedder.embed(["red dog"], role="document"),
        await expected.embed(["red dog"], role="document"),
    )
    assert embedder.info.cosine_floor == 0.75
    await embedder.close()
    await expected.close()


def create_embedder_of(folder: Path) -> OnnxEmbedder:
    (folder / "lagotto.json").write_text(
        f'{{"model_id": "x", "dimension": {DIMENSION}, "max_tokens": 512, "pooling": "mean"}}'
    )
    embedder = create_embedder(f"onnx:{folder}")
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


def test_a_base_with_a_fetched_model(folder: Path, tmp_path: Path, models: Path) -> None:
    location = tmp_path / "base.db"
    missing = pytest.raises(WeightsError, match="run `lagotto models fetch gte-small`")
    with missing, KnowledgeBase(location, embedder=NAME) as kb:
        kb.add(Document(id="d", text="red dog"))
    fetch_model(NAME, source=str(folder))
    with KnowledgeBase(location, embedder=NAME) as kb:
        kb.add(Document(id="d", text="red dog"))
    models.rename(models.with_name("away"))
    with missing, KnowledgeBase(location) as kb:
        kb.retrieve("dog")
    models.with_name("away").rename(models)
    with KnowledgeBase(location) as kb:
        assert kb.retrieve("dog")[0].document_id == "d"


def test_nothing_is_downloaded_by_an_embedder(hub: LocalHub) -> None:
    with pytest.raises(WeightsError, match="nothing is downloaded unless you ask for it"):
        create_embedder(NAME)
    assert hub.fetched == []


def test_parameters_are_refused(folder: Path) -> None:
    fetch_model(NAME, source=str(folder))
    with pytest.raises(ConfigError, match="takes no parameters; write onnx:/x"):
        create_embedder(f"{NAME}:/x")


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "gte-small/..", "nope", ""])
def test_names_lead_nowhere_else(name: str, hub: LocalHub, models: Path) -> None:
    with pytest.raises(UnknownNameError):
        fetch_model(name)
    assert hub.fetched == []
    assert not models.exists()


class TestHostileHub:
    def test_the_wrong_content(self, hub: LocalHub, models: Path) -> None:
        hub.files[ROOT + "onnx/model.onnx"] += b"x"
        with pytest.raises(WeightsError, match=r"onnx/model\.onnx is not the published file"):
            fetch_model(NAME)
        assert there(models) == []
        assert unfinished(models) == ["tokenizer.json"], "the bad file is gone, the good one kept"

    def test_after_the_wrong_content_the_right_one(
        self, hub: LocalHub, folder: Path, models: Path
    ) -> None:
        hub.files[ROOT + "onnx/model.onnx"] += b"x"
        with pytest.raises(WeightsError):
            fetch_model(NAME)
        hub.files[ROOT + "onnx/model.onnx"] = dict(files(folder))["onnx/model.onnx"]
        fetch_model(NAME)
        assert model_status(NAME).state == "present"
        assert len(hub.fetched) == 3

    def test_another_hash_than_the_hub_publishes(
        self, hub: LocalHub, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forget_hashes(monkeypatch)
        hub.linked = {ROOT + "onnx/model.onnx": "0" * 64}
        with pytest.raises(WeightsError, match=f"expected {'0' * 64}"):
            fetch_model(NAME)
        assert there(models) == []

    def test_a_page_instead_of_a_model(
        self, hub: LocalHub, folder: Path, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its hash is not known, but it does not load."""
        forget_hashes(monkeypatch)
        hub.files[ROOT + "onnx/model.onnx"] = b"<html>Please log in</html>"
        with pytest.raises(WeightsError, match="the files of gte-small can't be used: can't load"):
            fetch_model(NAME)
        assert there(models) == []
        assert unfinished(models) == []
        hub.files[ROOT + "onnx/model.onnx"] = dict(files(folder))["onnx/model.onnx"]
        fetch_model(NAME)
        assert model_status(NAME).state == "present"

    def test_a_missing_file(self, hub: LocalHub, models: Path) -> None:
        del hub.files[ROOT + "onnx/model.onnx"]
        with pytest.raises(WeightsError, match="answered 404"):
            fetch_model(NAME)
        assert there(models) == []

    def test_a_huge_file(self, hub: LocalHub, models: Path) -> None:
        hub.files[ROOT + "onnx/model.onnx"] = bytes(1_600_000)
        with pytest.raises(WeightsError, match="at most 1,500,000"):
            fetch_model(NAME)
        assert unfinished(models) == ["tokenizer.json"]

    def test_a_truncated_file_is_resumed(self, hub: LocalHub, models: Path) -> None:
        hub.faults.extend([Fault(), Fault(sent=100)])
        fetch_model(NAME)
        assert hub.fetched[-1] == (ROOT + "onnx/model.onnx", "bytes=100-")
        assert model_status(NAME).state == "present"


def test_a_damaged_model_is_fetched_again(hub: LocalHub, models: Path) -> None:
    fetch_model(NAME)
    with (models / NAME / "onnx/model.onnx").open("r+b") as file:
        file.write(b"?")
    fetch_model(NAME)
    assert len(hub.fetched) == 4
    assert MODELS[NAME].is_intact()


class TestQuantised:
    async def test_an_8_bit_model_of_its_own(self, hub: LocalHub, models: Path) -> None:
        assert fetch_model(NAME, quantise=True) == models / "gte-small-int8"
        assert there(models) == ["gte-small-int8"]
        assert unfinished(models) == []
        embedder = create_embedder("gte-small-int8")
        assert embedder.info.model_id == "gte-small-int8"
        assert (await embedder.embed(["red"], role="query")).shape == (1, DIMENSION)
        await embedder.close()

    def test_it_is_quantised(self, hub: LocalHub) -> None:
        import onnx

        made = onnx.load(str(fetch_model("gte-small-int8") / "onnx/model.onnx"))
        assert onnx.TensorProto.INT8 in {item.data_type for item in made.graph.initializer}
        assert any(item.dims and "scale" in item.name for item in made.graph.initializer), (
            "one scale per channel"
        )

    def test_from_the_fetched_model(self, hub: LocalHub, models: Path) -> None:
        fetch_model(NAME)
        fetch_model(NAME, quantise=True)
        assert len(hub.fetched) == 2
        assert there(models) == ["gte-small", "gte-small-int8"]

    def test_damage_is_noticed(self, hub: LocalHub) -> None:
        path = fetch_model("gte-small-int8") / "onnx/model.onnx"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(WeightsError, match=r"is damaged.*models fetch gte-small-int8"):
            MODELS["gte-small-int8"].verified("onnx/model.onnx")

    def test_without_the_extra_package(
        self, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(WeightsError, match=r"pip install lagotto\[int8\]"):
            fetch_model(NAME, quantise=True)
        assert hub.fetched == [], "it is said before anything is downloaded"

    def test_a_static_model_is_refused(self, hub: LocalHub) -> None:
        with pytest.raises(ConfigError, match="potion-base-8M can't be quantised"):
            fetch_model("potion-base-8M", quantise=True)


class TestMiniLM:
    def test_the_package_has_it(self, hub: LocalHub) -> None:
        assert fetch_model("minilm") == onnx.MINILM.find()
        assert model_status("minilm").state == "present"
        assert hub.fetched == []

    @pytest.mark.slow
    def test_the_8_bit_model_is_made_from_it(self, hub: LocalHub, tmp_path: Path) -> None:
        assert fetch_model("minilm", quantise=True) == tmp_path / "cache"
        assert len(list((tmp_path / "cache").glob("minilm-int8.*.onnx"))) == 1
        assert hub.fetched == []

    def test_without_the_package(
        self, hub: LocalHub, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def nowhere(self: KnownModel, folder: Path | None = None) -> Path:
            raise WeightsError("nowhere")

        monkeypatch.setattr(KnownModel, "find", nowhere)
        assert model_status("minilm").state == "missing"
        with pytest.raises(WeightsError, match="answered 404"):
            fetch_model("minilm")
        assert hub.fetched[0][0].startswith("/sentence-transformers/all-MiniLM-L6-v2/resolve/")
