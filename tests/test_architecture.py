"""The tree in ARCHITECTURE.md is the tree of the package, and the modules it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import lagotto
from lagotto._internal.registry import Registry
from lagotto.chunkers import CHUNKERS
from lagotto.embedders import EMBEDDERS
from lagotto.indexes.registry import TEXT_INDEXES, VECTOR_INDEXES
from lagotto.readers.formats import READERS
from lagotto.rerankers.base import RERANKERS
from lagotto.stores.registry import STORES

PACKAGE = Path(lagotto.__file__).parent
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"(?P<indent> +)(?P<names>[\w.]+(?:/|\.py)(?:, [\w.]+(?:/|\.py))*)  +\S")
"""Indented modules or folders, then two spaces or more, then a description."""


def drawn() -> list[Path]:
    """The paths in the tree, relative to the package."""
    (block,) = re.findall(r"^```\nsrc/lagotto/\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found: list[Path] = []
    parents = [Path()]
    for line in block.splitlines():
        entry = ENTRY.match(line)
        assert entry or not line.startswith(" "), f"not an entry of the tree: {line!r}"
        if entry:
            depth = len(entry["indent"]) // 2
            paths = [parents[depth - 1] / name for name in entry["names"].split(", ")]
            parents[depth:] = [paths[-1]]
            found += paths
    return found


def test_what_is_drawn_exists() -> None:
    assert len(drawn()) > 40
    assert [path for path in drawn() if not (PACKAGE / path).exists()] == []
    assert len(set(drawn())) == len(drawn())


def test_every_package_and_every_top_level_module_is_drawn() -> None:
    packages = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    modules = {Path(path.name) for path in PACKAGE.glob("*.py")} - {Path("__init__.py")}
    assert (packages | modules) - {Path()} - set(drawn()) == set()


def test_every_module_in_the_text_exists() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert len(named) > 10
    assert [
        name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)
    ] == []


@pytest.mark.parametrize(
    ("family", "group"),
    [
        (READERS, "lagotto.readers"),
        (CHUNKERS, "lagotto.chunkers"),
        (EMBEDDERS, "lagotto.embedders"),
        (RERANKERS, "lagotto.rerankers"),
        (TEXT_INDEXES, "lagotto.text_indexes"),
        (VECTOR_INDEXES, "lagotto.vector_indexes"),
        (STORES, "lagotto.stores"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_packages_add_to_the_family_under_the_documented_group(
    family: Registry[Any], group: str
) -> None:
    assert family.group == group
    assert f"`{group}`" in PAGE
