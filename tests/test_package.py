from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["numpy", "pydantic", "onnxruntime", "tokenizers", "httpx", "lxml", "docx", "pypdfium2"]


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_does_no_work() -> None:
    assert not modules_after("import lagotto") & set(HEAVY)


@pytest.mark.parametrize("family", ["readers", "chunkers", "embedders"])
def test_families_load_their_libraries_when_needed(family: str) -> None:
    loaded = modules_after(f"import lagotto.{family}")
    assert not loaded & (set(HEAVY) - {"numpy", "pydantic"})
