"""The tree in ARCHITECTURE.md is the tree of the package, and the modules it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import lagotto

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
