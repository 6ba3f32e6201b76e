"""Tables of numbers in the safetensors format, read without its library."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.errors import WeightsError

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays in a file, by name, mapped into memory; WeightsError for an invalid file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if not 0 < length <= LONGEST_HEADER:
                raise ValueError(f"its header has {length} bytes")
            header = json.loads(file.read(length))
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=LENGTH_BYTES + length)
        return {
            name: _array(entry, data) for name, entry in header.items() if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise WeightsError(f"can't load {path} as a safetensors file: {exc}") from exc


def _array(entry: dict[str, Any], data: NDArray[np.uint8]) -> NDArray[Any]:
    """The array that a header entry describes; ValueError if it does not fit its bytes."""
    dtype = np.dtype(TYPES[entry["dtype"]])
    start, end = entry["data_offsets"]
    shape = tuple(int(size) for size in entry["shape"])
    if not 0 <= start <= end <= len(data) or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of shape {shape} does not fit bytes {start} to {end}")
    return np.frombuffer(data[start:end], dtype=dtype).reshape(shape)
