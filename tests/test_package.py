from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import lagotto

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
    for name in module.__all__:
        getattr(module, name)  # imported on first use
    public = {name for name, value in vars(module).items() if not _is_private(name, value)}
    assert public - {"TYPE_CHECKING", "exports"} == set(module.__all__)
    assert sorted(set(module.__all__)) == sorted(module.__all__)


def _is_private(name: str, value: object) -> bool:
    return name.startswith("_") or isinstance(value, ModuleType)


def test_one_name_is_one_class() -> None:
    modules = Path(lagotto.__file__).parent.rglob("*.py")
    names = Counter(name for path in modules for name in _public_classes(path))
    assert {name for name, count in names.items() if count > 1} == set()


def _public_classes(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return [name for name in found if not name.startswith("_")]
