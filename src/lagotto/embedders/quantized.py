"""8-bit copies of ONNX models, made once and kept.

The file's name ends in the hash of its content, so one rename publishes it whole, and a damaged
copy is recognised, thrown away and made again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from lagotto.errors import WeightsError

DIGITS = 32
"""Characters of the hash in a file's name."""


def quantized(source: Callable[[], Path], *, name: str, cache: Path) -> Path:
    """The 8-bit copy called `name` in the folder `cache`, made from `source()` if need be."""
    for path in sorted(cache.glob(f"{name}.{'[0-9a-f]' * DIGITS}.onnx")):
        if path.name == _file_name(name, path):
            return path
        path.unlink(missing_ok=True)
    model = source()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as folder:
            made = Path(folder) / "model.onnx"
            _quantize(model, made)
            target = cache / _file_name(name, made)
            _publish(made, target)
    except OSError as exc:
        raise WeightsError(
            f"the 8-bit model can't be written to {cache}: {exc}; "
            "set LAGOTTO_CACHE to a folder with 100 MB to spare"
        ) from exc
    return target


def _file_name(name: str, path: Path) -> str:
    with path.open("rb") as file:
        return f"{name}.{hashlib.file_digest(file, 'sha256').hexdigest()[:DIGITS]}.onnx"


def _publish(made: Path, target: Path) -> None:
    """Move `made` to `target` so that a crash leaves either the whole file or none."""
    with made.open("r+b") as file:
        os.fsync(file.fileno())
    made.replace(target)


def _quantize(source: Path, target: Path) -> None:
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as exc:
        raise WeightsError(
            "making the 8-bit model needs the onnx package: pip install lagotto[int8]"
        ) from exc
    model = onnx.load(str(source))
    # Without this mark the quantiser advises the root logger to optimise the graph first, which
    # the runtime does anyway when it loads the result.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    # One scale per channel: with one per tensor the vectors come out visibly wrong.
    quantize_dynamic(model, str(target), per_channel=True, weight_type=QuantType.QInt8)
