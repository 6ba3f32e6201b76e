from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.documents import Vectors
from lagotto.embedders.static import StaticConfig, StaticEmbedder, read_tensors
from lagotto.errors import ModelMismatchError, WeightsError
from lagotto.testing.embedders import EmbedderContract

from .tiny_model import DIMENSION, TABLE, WORDS, tiny_tokenizer

CONFIG = StaticConfig(model_id="tiny-static", dimension=DIMENSION)
VECTORS = dict(zip(WORDS, TABLE, strict=True))


def write_tensors(path: Path, **arrays: np.ndarray) -> None:
    header, data = {}, b""
    for name, array in arrays.items():
        dtype = {"float32": "F32", "float16": "F16", "int64": "I64"}[array.dtype.name]
        end = len(data) + array.nbytes
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def make(folder: Path, *, config: StaticConfig = CONFIG, **arrays: np.ndarray) -> StaticEmbedder:
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    write_tensors(folder / "model.safetensors", **(arrays or {"embeddings": TABLE}))
    return StaticEmbedder(folder.joinpath, config=config)


def unit(vector: Vectors) -> Vectors:
    return vector / np.linalg.norm(vector)


class TestStatic(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> StaticEmbedder:
        from tokenizers import Tokenizer, models, pre_tokenizers

        letters = [*map(chr, range(32, 127)), "[UNK]"]
        tokenizer = Tokenizer(
            models.WordPiece(
                {**{letter: index for index, letter in enumerate(letters)},
                 **{f"##{letter}": 96 + index for index, letter in enumerate(letters)}},
                unk_token="[UNK]",
            )
        )  # fmt: skip
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        table = np.random.default_rng(1).normal(size=(192, DIMENSION)).astype(np.float32)
        made = make(tmp_path, embeddings=table)
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        return made


async def test_the_mean_of_the_words_without_special_and_unknown_tokens(tmp_path: Path) -> None:
    embedder = make(tmp_path)
    found = await embedder.embed(["red dog", "red unheard dog dog"], role="query")
    np.testing.assert_allclose(found[0], unit(VECTORS["red"] + VECTORS["dog"]), atol=1e-6)
    np.testing.assert_allclose(found[1], unit(VECTORS["red"] + 2 * VECTORS["dog"]), atol=1e-6)


async def test_a_text_without_a_known_word(tmp_path: Path) -> None:
    found = await make(tmp_path).embed(["", "unheard"], role="document")
    np.testing.assert_allclose(found, [unit(TABLE.mean(axis=0))] * 2, atol=1e-6)


async def test_weights_and_mapping(tmp_path: Path) -> None:
    mapping = np.zeros(len(WORDS), dtype=np.int64)
    mapping[WORDS.index("dog")] = 1
    weights = np.linspace(0.1, 1.0, len(WORDS)).astype(np.float32)
    table = TABLE[:2].astype(np.float16)
    embedder = make(tmp_path, embeddings=table, mapping=mapping, weights=weights)
    (found,) = await embedder.embed(["red dog"], role="document")
    red, dog = weights[WORDS.index("red")], weights[WORDS.index("dog")]
    expected = red * table[0].astype(np.float32) + dog * table[1].astype(np.float32)
    np.testing.assert_allclose(found, unit(expected), atol=1e-5)


async def test_text_beyond_the_limit_is_left_out(tmp_path: Path) -> None:
    embedder = make(tmp_path, config=CONFIG.model_copy(update={"max_tokens": 3}))
    found = await embedder.embed(["red red red dog dog", "red"], role="document")
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


async def test_another_dimension(tmp_path: Path) -> None:
    embedder = make(tmp_path, config=CONFIG.model_copy(update={"dimension": 7}))
    with pytest.raises(ModelMismatchError, match="dimension 7"):
        await embedder.embed(["red"], role="document")


async def test_a_file_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no table of embeddings, but other; "):
        await make(tmp_path, other=TABLE).embed(["red"], role="document")


async def test_the_tokenizer_of_another_model(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="token 9 is not in the table of 3 tokens"):
        await make(tmp_path, embeddings=TABLE[:3]).embed(["red dog"], role="document")


def write(path: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: str = "F32", shape: Any = (2, 2), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_arrays_by_name(tmp_path: Path) -> None:
    table = np.arange(6, dtype="<f2").reshape(3, 2)
    rows = np.array([2, 0], dtype="<i8")
    header = {
        "__metadata__": {"format": "pt"},
        "embeddings": entry("F16", (3, 2), (0, 12)),
        "mapping": entry("I64", (2,), (12, 28)),
    }
    found = read_tensors(write(tmp_path / "x", header, table.tobytes() + rows.tobytes()))
    assert set(found) == {"embeddings", "mapping"}
    np.testing.assert_array_equal(found["embeddings"], table)
    np.testing.assert_array_equal(found["mapping"], rows)


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"[]",
        {"x": 5},
        {"x": entry("BF99")},
        {"x": entry(offsets=(0, 20))},
        {"x": entry(offsets=(8, 16))},
        {"x": entry(offsets=(-16, 0))},
        {"x": entry(shape=(2, -2))},
        {"x": entry(shape=(2**40, 2**40))},
        {"x": {"dtype": "F32"}},
    ],
)
def test_a_header_that_does_not_fit(tmp_path: Path, header: Any) -> None:
    with pytest.raises(WeightsError, match="as a safetensors file"):
        read_tensors(write(tmp_path / "x", header, bytes(16)))


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 8 + b"{}", bytes(8)])
def test_another_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(WeightsError, match="as a safetensors file"):
        read_tensors(tmp_path / "x")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="No such file"):
        read_tensors(tmp_path / "x")
