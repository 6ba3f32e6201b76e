from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.embedders.onnx import (
    CONFIG,
    INT8_MODEL,
    MINILM,
    MINILM_INT8,
    OnnxEmbedder,
    default_embedder,
)
from lagotto.errors import WeightsError
from lagotto.testing.embedders import TEXTS, EmbedderContract

pytestmark = pytest.mark.slow

# From the quick start of the sentence-transformers README.
SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
SIMILARITIES = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
ROUNDING = 5e-4
assert MINILM.installed is not None
CARRIER = list(MINILM.installed.locations())[-1]
"""The package that has no 8-bit model, whatever else is installed."""

FILES = ("tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data")


@pytest.fixture(scope="module")
def full() -> Iterator[OnnxEmbedder]:
    embedder = MINILM()
    assert isinstance(embedder, OnnxEmbedder)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAGOTTO_CACHE", str(folder))
        patch.setenv("LAGOTTO_MINILM", str(CARRIER))
        yield folder


@pytest.fixture(scope="module")
def int8(cache: Path) -> Iterator[OnnxEmbedder]:
    embedder = MINILM_INT8()
    assert isinstance(embedder, OnnxEmbedder)
    yield embedder
    asyncio.run(embedder.close())


def files(folder: Path) -> list[Path]:
    """The models in a cache, which has the hashes of verified files too."""
    return sorted(folder.glob("*.onnx*"))


class TestMiniLM(EmbedderContract):
    @pytest.fixture
    def embedder(self, full: OnnxEmbedder) -> OnnxEmbedder:
        return full


class TestMiniLMInt8(EmbedderContract):
    # Scales are taken from each run's numbers; as every text runs alone, none differ.
    tolerance = 0.0

    @pytest.fixture
    def embedder(self, int8: OnnxEmbedder) -> OnnxEmbedder:
        return int8


async def similarities(embedder: OnnxEmbedder) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    vectors = await embedder.embed(SENTENCES, role="document")
    return vectors @ vectors.T


async def test_published_similarities(full: OnnxEmbedder) -> None:
    np.testing.assert_allclose(await similarities(full), SIMILARITIES, atol=ROUNDING)


async def test_another_pooling_would_not_give_the_published_similarities() -> None:
    config = CONFIG.model_copy(update={"pooling": "cls"})
    embedder = OnnxEmbedder(MINILM.verified, config=config)
    found = await similarities(embedder)
    await embedder.close()
    assert abs(found - SIMILARITIES).max() > 10 * ROUNDING


async def test_the_8_bit_model_is_near_but_not_the_same(
    full: OnnxEmbedder, int8: OnnxEmbedder
) -> None:
    exact = await full.embed(TEXTS, role="document")
    rough = await int8.embed(TEXTS, role="document")
    cosines = (exact * rough).sum(axis=1)
    assert (cosines > 0.97).all()
    assert (cosines < 0.99999).any()
    assert full.info.model_id != int8.info.model_id


async def test_256_tokens_are_read(full: OnnxEmbedder) -> None:
    assert full.info.max_tokens == 256
    head = "truffle " * 100
    assert full.tokenizer.count([head])[0] > 254
    with_tail, without = await full.embed([head + "quantum physics " * 50, head], role="document")
    np.testing.assert_array_equal(with_tail, without)


async def test_the_mean_of_the_token_vectors_is_the_embedding(full: OnnxEmbedder) -> None:
    texts = [*TEXTS, "", "Größe 👍 naïve"]
    vectors = await full.embed(texts, role="document")
    for text, vector, tokens in zip(texts, vectors, await full.token_vectors(texts), strict=True):
        mean = tokens.vectors.mean(axis=0)
        np.testing.assert_allclose(mean / np.linalg.norm(mean), vector, atol=1e-5)
        inner = tokens.ends > tokens.starts
        assert tokens.starts[inner].tolist() == full.tokenizer.starts([text])[0].tolist()


async def test_the_8_bit_model_is_made_once(int8: OnnxEmbedder, cache: Path) -> None:
    await int8.embed(["x"], role="query")
    (made,) = files(cache)
    before = made.stat()
    again = MINILM_INT8()
    await again.embed(["x"], role="query")
    await again.close()
    assert files(cache) == [made]
    assert made.stat().st_mtime_ns == before.st_mtime_ns
    assert made.stat().st_size < 25_000_000


async def test_a_damaged_8_bit_model_is_made_again(int8: OnnxEmbedder, cache: Path) -> None:
    expected = await int8.embed(TEXTS, role="document")
    (made,) = files(cache)
    with made.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\0" * 100)
    again = MINILM_INT8()
    np.testing.assert_array_equal(await again.embed(TEXTS, role="document"), expected)
    await again.close()
    assert files(cache) == [made]


async def test_without_the_extra_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("LAGOTTO_MINILM", str(CARRIER))
    monkeypatch.setitem(sys.modules, "onnx", None)
    embedder = MINILM_INT8()
    with pytest.raises(WeightsError, match=r"pip install lagotto\[int8\]"):
        await embedder.embed(["x"], role="query")
    await embedder.close()


class TestOwnDistribution:
    """The package lagotto-minilm, which ships the 8-bit model too."""

    @pytest.fixture
    def package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, int8: OnnxEmbedder, cache: Path
    ) -> Path:
        int8._session()
        package = tmp_path / "site" / "lagotto_minilm"
        (package / "onnx").mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
        for name in FILES:
            (package / name).symlink_to(CARRIER / name)
        (made,) = files(cache)
        shutil.copyfile(made, package / INT8_MODEL)
        monkeypatch.delenv("LAGOTTO_MINILM")
        monkeypatch.syspath_prepend(str(package.parent))
        monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "empty"))
        monkeypatch.setitem(sys.modules, "onnx", None)
        return package

    async def test_it_comes_first_and_needs_nothing_else(
        self, package: Path, int8: OnnxEmbedder
    ) -> None:
        assert MINILM.find() == package
        assert default_embedder() == "minilm-int8"
        shipped = MINILM_INT8()
        found = await shipped.embed(TEXTS, role="document")
        np.testing.assert_array_equal(found, await int8.embed(TEXTS, role="document"))
        await shipped.close()

    async def test_another_8_bit_model_is_refused(self, package: Path) -> None:
        with (package / INT8_MODEL).open("ab") as file:
            file.write(b"x")
        changed = MINILM_INT8()
        with pytest.raises(WeightsError, match=r"model_int8.onnx is not a published file"):
            await changed.embed(["x"], role="query")
        await changed.close()

    async def test_a_base_keeps_its_embedder(
        self, package: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new, old = package.parent / "new.db", package.parent / "old.db"
        async with AsyncKnowledgeBase(new) as base:
            await base.add(Document(text="A text."))
            assert (await base.info()).embedder == "minilm-int8"
        monkeypatch.setenv("LAGOTTO_MINILM", str(CARRIER))
        assert default_embedder() == "minilm"
        async with AsyncKnowledgeBase(old) as base:
            await base.add(Document(text="A text."))
        monkeypatch.delenv("LAGOTTO_MINILM")
        async with AsyncKnowledgeBase(old) as base:
            await base.add(Document(text="Another text."))
            assert (await base.info()).embedder == "minilm"

    def test_without_any_weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAGOTTO_MINILM", str(tmp_path))
        assert default_embedder() == "minilm"

    def test_its_build_checks_the_same_hashes(self) -> None:
        build = (Path(__file__).parents[3] / "weights" / "hatch_build.py").read_text()
        for name in (*FILES, INT8_MODEL):
            known = {**MINILM.hashes, **MINILM.optional}[name]
            assert sum(digest in build for digest in known) == 1


async def test_a_cache_that_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_MINILM", str(CARRIER))
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LAGOTTO_CACHE", str(tmp_path / "file"))
    embedder = MINILM_INT8()
    with pytest.raises(WeightsError, match="set LAGOTTO_CACHE"):
        await embedder.embed(["x"], role="query")
    await embedder.close()


async def test_changed_weights_are_refused(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((CARRIER / name).read_bytes())
    with (tmp_path / "onnx/model.onnx_data").open("r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))
    embedder = MINILM(str(tmp_path))
    assert embedder.tokenizer.count(["fine"]) == [1]
    with pytest.raises(WeightsError, match=r"model\.onnx_data is not a published file"):
        await embedder.embed(["x"], role="query")
    await embedder.close()
