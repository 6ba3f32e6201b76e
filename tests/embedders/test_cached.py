from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from lagotto.documents import Vectors
from lagotto.embedders import CachedEmbedder, Role
from lagotto.embedders.cached import SLICE
from lagotto.errors import EmbeddingError
from lagotto.testing.embedders import TEXTS, EmbedderContract
from lagotto.testing.hash_embedder import HashEmbedder


class CountingEmbedder(HashEmbedder):
    """Remembers what it was asked."""

    def __init__(self, *, dimension: int = 16, model_id: str = "hash") -> None:
        super().__init__(dimension=dimension, model_id=model_id)
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        self.asked.extend(texts)
        return await super().embed(texts, role=role)


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> CachedEmbedder:
        return CachedEmbedder(HashEmbedder(), tmp_path / "new" / "folder")


@pytest.fixture
def inner() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def expected() -> Vectors:
    return asyncio.run(HashEmbedder(dimension=16).embed(TEXTS, role="document"))


async def test_only_new_texts_are_embedded_each_once(
    tmp_path: Path, inner: CountingEmbedder
) -> None:
    await CachedEmbedder(inner, tmp_path).embed(["a", "b", "a"], role="document")
    assert inner.asked == ["a", "b"]
    await CachedEmbedder(inner, tmp_path).embed(["b", "c", "a", "c"], role="document")
    assert inner.asked == ["a", "b", "c"]


async def test_roles_and_models_are_kept_apart(tmp_path: Path, inner: CountingEmbedder) -> None:
    other = CountingEmbedder(model_id="other")
    await CachedEmbedder(inner, tmp_path).embed(["a"], role="document")
    await CachedEmbedder(inner, tmp_path).embed(["a"], role="query")
    await CachedEmbedder(other, tmp_path).embed(["a"], role="document")
    assert (inner.asked, other.asked) == (["a", "a"], ["a"])


async def test_the_same_vectors_from_disk(tmp_path: Path, expected: Vectors) -> None:
    for _ in range(2):
        cached = CachedEmbedder(HashEmbedder(dimension=16), tmp_path)
        np.testing.assert_array_equal(await cached.embed(TEXTS, role="document"), expected)


async def test_another_dimension_is_made_again(tmp_path: Path) -> None:
    await CachedEmbedder(CountingEmbedder(dimension=8), tmp_path).embed(["a"], role="document")
    inner = CountingEmbedder(dimension=16)
    found = await CachedEmbedder(inner, tmp_path).embed(["a"], role="document")
    assert found.shape == (1, 16)
    assert inner.asked == ["a"]


async def test_a_damaged_row_is_made_again(
    tmp_path: Path, inner: CountingEmbedder, expected: Vectors
) -> None:
    cached = CachedEmbedder(inner, tmp_path)
    await cached.embed(TEXTS, role="document")
    with closing(sqlite3.connect(tmp_path / "vectors.db")) as connection, connection:
        connection.execute("UPDATE vectors SET value = zeroblob(64) WHERE rowid = 2")
    for _ in range(2):
        np.testing.assert_array_equal(await cached.embed(TEXTS, role="document"), expected)
    assert len(inner.asked) == len(TEXTS) + 1


def count_damaged(folder: Path) -> int:
    return len(list(folder.glob("vectors.db.damaged-*")))


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
async def test_a_damaged_file_is_moved_aside(
    tmp_path: Path,
    inner: CountingEmbedder,
    expected: Vectors,
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    cached = CachedEmbedder(inner, tmp_path)
    await cached.embed(TEXTS, role="document")
    file = tmp_path / "vectors.db"
    file.write_bytes(b"garbage " * 999 if damage == "garbage" else file.read_bytes()[:5000])
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(await cached.embed(TEXTS, role="document"), expected)
    assert "is damaged" in caplog.text
    assert count_damaged(tmp_path) == 1
    await cached.embed(TEXTS, role="document")
    assert len(inner.asked) == 2 * len(TEXTS)


async def test_a_cancelled_call_keeps_what_it_has_made(tmp_path: Path) -> None:
    stuck = asyncio.Event()

    class StuckEmbedder(CountingEmbedder):
        async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
            if self.asked:
                stuck.set()
                await asyncio.sleep(3600)
            return await super().embed(texts, role=role)

    texts = [f"text {number}" for number in range(SLICE + 5)]
    call = asyncio.ensure_future(
        CachedEmbedder(StuckEmbedder(), tmp_path).embed(texts, role="query")
    )
    await stuck.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    inner = CountingEmbedder()
    await CachedEmbedder(inner, tmp_path).embed(texts, role="query")
    assert inner.asked == texts[SLICE:]


async def test_a_folder_that_can_not_be_used(tmp_path: Path, inner: CountingEmbedder) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbeddingError, match=r"can't use the embedding cache .*vectors\.db"):
        await CachedEmbedder(inner, tmp_path / "file").embed(["a"], role="query")


async def test_an_inner_embedder_that_breaks_its_promise(tmp_path: Path) -> None:
    class ShortEmbedder(HashEmbedder):
        async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
            return (await super().embed(texts, role=role))[1:]

    with pytest.raises(EmbeddingError, match="1 vectors for 2 texts"):
        await CachedEmbedder(ShortEmbedder(), tmp_path).embed(["a", "b"], role="query")


PROCESS = """
import asyncio, sys
from lagotto.embedders import CachedEmbedder
from lagotto.testing.hash_embedder import HashEmbedder
async def main():
    cached = CachedEmbedder(HashEmbedder(dimension=16), sys.argv[1])
    for start in range(0, 200, 10):
        await cached.embed([f"text {n}" for n in range(start, start + 15)], role="document")
asyncio.run(main())
"""


def run_processes(folder: str) -> list[str]:
    command = [sys.executable, "-c", PROCESS, folder]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    return [process.communicate()[1] for process in processes]


async def test_several_processes_share_one_folder(tmp_path: Path, inner: CountingEmbedder) -> None:
    assert run_processes(str(tmp_path)) == ["", "", ""]
    texts = [f"text {number}" for number in range(205)]
    found = await CachedEmbedder(inner, tmp_path).embed(texts, role="document")
    assert inner.asked == []
    source = HashEmbedder(dimension=16)
    np.testing.assert_array_equal(found, await source.embed(texts, role="document"))
