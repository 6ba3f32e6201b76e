"""docs/reference-designs.md and the tests say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lagotto

PAGE = (Path(__file__).parents[2] / "docs" / "reference-designs.md").read_text(encoding="utf-8")
PACKAGE = Path(lagotto.__file__).parent
ROWS = {"oasis": 17, "contextpack": 16, "kotlin-rag": 18, "local-rag": 15, "aiblox": 22}


def rows(design: str) -> list[list[str]]:
    (section,) = re.findall(rf"^## {design}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for line in section.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def documented(design: str) -> dict[str, set[int]]:
    """The tests of a design by name, each with the rows that its docstring names."""
    file = Path(__file__).with_name(f"test_{design.replace('-', '_')}.py")
    found: dict[str, set[int]] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            said = re.match(rf"{design} ([\d, and]+):", ast.get_docstring(node) or "")
            if said:
                found[node.name] = set(map(int, re.findall(r"\d+", said[1])))
    return found


@pytest.mark.parametrize("design", ROWS)
def test_every_row_has_a_test_that_names_it(design: str) -> None:
    tests = documented(design)
    assert [int(row[0]) for row in rows(design)] == list(range(1, ROWS[design] + 1))
    for number, _, named, _ in rows(design):
        expected = {name for name, numbers in tests.items() if int(number) in numbers}
        assert set(re.findall(r"`(\w+)`", named)) == expected != set()


@pytest.mark.parametrize("design", ROWS)
def test_the_code_is_where_it_says(design: str) -> None:
    for *_, code in rows(design):
        for path in re.findall(r"`([^`]+)`", code):
            assert (PACKAGE / path).exists(), path
