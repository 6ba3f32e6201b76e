from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagotto.embedders.static import read_tensors
from lagotto.errors import WeightsError


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
