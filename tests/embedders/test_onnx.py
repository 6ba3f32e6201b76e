from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lagotto.embedders import create_embedder, onnx
from lagotto.embedders.onnx import OnnxConfig, OnnxEmbedder, from_folder
from lagotto.errors import ConfigError, EmbeddingError, LagottoError, WeightsError
from lagotto.models.onnx import OnnxSession
from lagotto.testing.embedders import EmbedderContract

from .tiny_model import DIMENSION, TABLE, WORDS, make_model

CONFIG = OnnxConfig(model_id="tiny", dimension=DIMENSION, max_tokens=8, pooling="mean")


def vectors_of(*words: str) -> NDArray[np.float32]:
    return np.array([TABLE[WORDS.index(word)] for word in words])


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)


def embedder_for(folder: Path, **settings: object) -> OnnxEmbedder:
    config = OnnxConfig.model_validate({**CONFIG.model_dump(), **settings})
    return OnnxEmbedder(folder.joinpath, config=config, threads=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_model(tmp_path / "tiny")


class TestTinyEmbedder(EmbedderContract):
    @pytest.fixture
    async def embedder(self, folder: Path) -> AsyncIterator[OnnxEmbedder]:
        # Every word of the contract's texts is unknown here, so their lengths must tell them apart.
        embedder = embedder_for(folder, max_tokens=64)
        yield embedder
        await embedder.close()


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", unit(vectors_of("[CLS]", "red", "dog", "[SEP]").mean(axis=0))),
        ("cls", unit(vectors_of("[CLS]")[0])),
    ],
)
async def test_pooling(folder: Path, pooling: str, expected: NDArray[np.float32]) -> None:
    embedder = embedder_for(folder, pooling=pooling)
    found = await embedder.embed(["red dog", "blue green dog"], role="document")
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


async def test_a_graph_that_pools_by_itself(tmp_path: Path) -> None:
    embedder = embedder_for(make_model(tmp_path / "pooled", pooled=True), batch_tokens=1)
    found = await embedder.embed(["red dog"], role="document")
    expected = unit(vectors_of("[CLS]", "red", "dog", "[SEP]").max(axis=0))
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    with pytest.raises(EmbeddingError, match="one vector per text"):
        await embedder.token_vectors(["red dog"])


async def test_prefixes_by_role(folder: Path) -> None:
    plain = embedder_for(folder)
    prefixed = embedder_for(folder, query_prefix="query ", document_prefix="passage ")
    for role, word in (("query", "query"), ("document", "passage")):
        found = await prefixed.embed(["red dog"], role=role)  # type: ignore[arg-type]
        expected = await plain.embed([f"{word} red dog"], role="document")
        np.testing.assert_array_equal(found, expected)


async def test_text_beyond_max_tokens_makes_no_difference(folder: Path) -> None:
    embedder = embedder_for(folder, max_tokens=8)
    short, long = await embedder.embed(["red " * 6, "red " * 6 + "dog " * 500], role="document")
    np.testing.assert_array_equal(short, long)


async def test_many_texts_keep_their_order(folder: Path) -> None:
    texts = [" ".join(WORDS[4 + i % 6 :]) for i in range(3000)]
    found = await embedder_for(folder).embed(texts, role="document")
    expected = await embedder_for(folder, batch_tokens=1).embed(texts[:6], role="document")
    np.testing.assert_allclose(found, np.tile(expected, (500, 1)), atol=1e-6)


async def test_token_vectors_say_where_they_come_from(folder: Path) -> None:
    embedder = embedder_for(folder, document_prefix="passage ")
    text = "red  dog blue"
    found, empty = await embedder.token_vectors([text, ""])
    spans = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    assert [text[start:end] for start, end in spans] == ["", "", "red", "dog", "blue", ""]
    np.testing.assert_array_equal(
        found.vectors, vectors_of("[CLS]", "passage", "red", "dog", "blue", "[SEP]")
    )
    assert empty.vectors.shape == (3, DIMENSION)


async def test_a_cancelled_call_runs_no_further_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, running, loop = 0, asyncio.Event(), asyncio.get_running_loop()
    original = OnnxSession.run

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal runs
        runs += 1
        loop.call_soon_threadsafe(running.set)
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(OnnxSession, "run", counted)
    embedder = embedder_for(folder, batch_tokens=1)
    call = asyncio.ensure_future(embedder.embed(["red dog"] * 1000, role="document"))
    await running.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await embedder.close()
    assert runs < 1000


async def test_a_small_call_does_not_wait_for_a_large_one(folder: Path) -> None:
    embedder = embedder_for(folder, batch_tokens=1)
    large = asyncio.ensure_future(embedder.embed(["red dog"] * 5000, role="document"))
    await asyncio.sleep(0)
    await embedder.embed(["blue"], role="query")
    assert not large.done()
    large.cancel()
    await asyncio.wait([large])


async def test_a_model_of_another_dimension(folder: Path) -> None:
    with pytest.raises(EmbeddingError, match="configured with dimension 7"):
        await embedder_for(folder, dimension=7).embed(["red"], role="document")


async def test_a_file_that_is_no_model(folder: Path) -> None:
    (folder / "onnx/model.onnx").write_bytes(b"not a model")
    with pytest.raises(WeightsError, match=r"can't load .*model\.onnx as an ONNX model"):
        await embedder_for(folder).embed(["red"], role="document")


async def test_a_preloaded_model_fails_at_the_first_call_only(folder: Path) -> None:
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    embedder = embedder_for(folder)
    embedder.preload()
    with pytest.raises(WeightsError, match="can't load"):
        await embedder.embed(["red"], role="query")
    await embedder.close()


async def test_a_preloaded_model_is_loaded_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def load(path: Path, **failures: type[LagottoError]) -> OnnxSession:
        loaded.append(path)
        return OnnxSession(path, **failures)

    monkeypatch.setattr(onnx, "OnnxSession", load)
    embedder = embedder_for(folder)
    embedder.preload()
    await embedder.embed(["red"], role="query")
    embedder.preload()
    await embedder.close()
    assert len(loaded) == 1


async def test_a_missing_model_file(folder: Path) -> None:
    (folder / "onnx/model.onnx").unlink()
    with pytest.raises(WeightsError, match=r"can't load .*model\.onnx as an ONNX model"):
        await embedder_for(folder).embed(["red"], role="document")


async def test_a_graph_with_inputs_of_another_kind(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "odd", extra_input="pixel_values")
    with pytest.raises(ConfigError, match="pixel_values"):
        await embedder_for(folder).embed(["red"], role="document")


async def test_an_optional_input_is_supplied(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "typed", extra_input="token_type_ids")
    assert (await embedder_for(folder).embed(["red"], role="document")).shape == (1, DIMENSION)


def test_no_threads(folder: Path) -> None:
    with pytest.raises(ConfigError, match="threads is 0"):
        OnnxEmbedder(folder.joinpath, config=CONFIG, threads=0)


class TestFolder:
    def write(self, path: Path, content: object) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))

    def test_own_configuration(self, folder: Path) -> None:
        self.write(folder / "lagotto.json", CONFIG.model_dump())
        embedder = create_embedder(f"onnx:{folder}")
        assert isinstance(embedder, OnnxEmbedder)
        assert embedder.config == CONFIG
        assert embedder.info.model_id == "tiny"

    def test_conventions_of_sentence_transformers(self, folder: Path) -> None:
        pooling = {"word_embedding_dimension": 6, "pooling_mode_cls_token": True}
        self.write(folder / "1_Pooling/config.json", pooling)
        self.write(folder / "sentence_bert_config.json", {"max_seq_length": 64})
        self.write(folder / "config.json", {"hidden_size": 99, "max_position_embeddings": 99})
        self.write(folder / "lagotto.json", {"cosine_floor": 0.7, "query_prefix": "query: "})
        assert from_folder(str(folder)).config == OnnxConfig(
            model_id="tiny",
            dimension=6,
            max_tokens=64,
            pooling="cls",
            cosine_floor=0.7,
            query_prefix="query: ",
        )

    def test_a_missing_key_is_named(self, folder: Path) -> None:
        self.write(folder / "lagotto.json", {"dimension": 6, "max_tokens": 64})
        with pytest.raises(ConfigError, match=r"pooling: Field required.*lagotto\.json"):
            from_folder(str(folder))

    def test_an_unknown_key_is_named(self, folder: Path) -> None:
        self.write(folder / "lagotto.json", {**CONFIG.model_dump(), "poolings": "mean"})
        with pytest.raises(ConfigError, match="poolings: Extra inputs"):
            from_folder(str(folder))

    @pytest.mark.parametrize("content", ["{", "[1]"])
    def test_a_broken_configuration(self, folder: Path, content: str) -> None:
        (folder / "lagotto.json").write_text(content)
        with pytest.raises(ConfigError, match=r"can't read .*lagotto\.json|json holds a list"):
            from_folder(str(folder))

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="there is no folder"):
            create_embedder(f"onnx:{tmp_path / 'missing'}")

    def test_a_model_file_at_the_top(self, folder: Path) -> None:
        (folder / "onnx/model.onnx").rename(folder / "model.onnx")
        settings = CONFIG.model_dump(exclude={"model_file"})
        self.write(folder / "lagotto.json", settings)
        assert from_folder(str(folder)).config.model_file == "model.onnx"
