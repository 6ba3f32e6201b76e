"""rows.md and statements.txt list the designs, and the tests hold what they list."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).with_name("rows.md").read_text(encoding="utf-8")
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
    for number, _, named in rows(design):
        expected = {name for name, numbers in tests.items() if int(number) in numbers}
        assert set(re.findall(r"`(\w+)`", named)) == expected != set()


STATEMENTS = [
    line
    for line in Path(__file__).with_name("statements.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@cache
def names_of_tests(path: Path) -> set[str]:
    """The tests of a file: functions, and methods as Class.test."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    named = {node.name for node in body if isinstance(node, functions)}
    for kind in (node for node in body if isinstance(node, ast.ClassDef)):
        named |= {f"{kind.name}.{it.name}" for it in kind.body if isinstance(it, functions)}
    return {name for name in named if name.rpartition(".")[2].startswith("test_")}


def test_every_statement_has_its_test() -> None:
    counts = {"oasis": 48, "contextpack": 52, "kotlin-rag": 63, "local-rag": 36, "aiblox": 98}
    assert Counter(line.partition(" | ")[0] for line in STATEMENTS) == counts
    folder = Path(__file__).parent
    for line in STATEMENTS:
        design, _, rest = line.partition(" | ")
        statement, _, test = rest.rpartition(" | ")
        elsewhere, _, name = test.rpartition("::")
        own = folder / f"test_{design.replace('-', '_')}.py"
        assert statement
        assert name in names_of_tests(folder.parent / elsewhere if elsewhere else own), line
