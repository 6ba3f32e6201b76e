from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

HEAVY = ["numpy", "pydantic", "onnxruntime", "tokenizers", "httpx", "lxml", "docx", "pypdfium2"]
FAMILIES = ["readers", "chunkers", "embedders", "rerankers"]


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_does_no_work() -> None:
    assert not modules_after("import lagotto") & set(HEAVY)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_load_their_libraries_when_needed(family: str) -> None:
    loaded = modules_after(f"import lagotto.{family}")
    assert not loaded & (set(HEAVY) - {"numpy", "pydantic"})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_exports_what_it_imports(family: str) -> None:
    module = import_module(f"lagotto.{family}")
    public = {name for name, value in vars(module).items() if not _is_private(name, value)}
    assert public == set(module.__all__)
    assert sorted(set(module.__all__)) == sorted(module.__all__)


def _is_private(name: str, value: object) -> bool:
    return name.startswith("_") or isinstance(value, ModuleType)
