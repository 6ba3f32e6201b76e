"""Layers point one way: records know nothing of families, families nothing of each other.

Rerankers may use the embedder contract: some of them score with the base's own embedder.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lagotto

ROOT = Path(lagotto.__file__).parent

LAYERS = [
    {"errors"},
    {"_internal", "documents"},
    {"request_context", "terms", "filters", "results"},
    {"presets"},
    {"prefs", "models"},
    {"indexes"},
    {"readers", "chunkers", "embedders", "stores"},
    {"rerankers"},
    {"retrieval"},
    {"context"},
    {"base"},
    {"mcp", "evals"},
    {"demo", "server"},
    {"cli"},
    {"__main__", "testing"},
]
"""From the ground up. A module imports from its own part and from the layers below."""

MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of lagotto that a module imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("lagotto.")}


def below(part: str) -> set[str]:
    (height,) = [height for height, layer in enumerate(LAYERS) if part in layer]
    return set().union(*LAYERS[:height])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    assert imported_parts(path) <= below(part) | {part}
