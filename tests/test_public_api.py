"""`lagotto.__all__`, docs/api.md and the modules agree, and the docs import only what is public."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import getmembers, isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import lagotto
from lagotto import (
    AsyncKnowledgeBase,
    Filter,
    LagottoError,
    RetrievalPrefs,
    context,
    errors,
    filters,
    readers,
)
from lagotto.base import export, ingest, judgements, rebuild
from lagotto.documents import Record
from tests.test_docs import EXAMPLE, PAGES

API = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = {name: getattr(lagotto, name) for name in (*lagotto.__all__, "open")}


def rows(section: str) -> list[list[list[str]]]:
    """The names in backticks, by row and column, of the table in a section of docs/api.md."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", API, re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[1:-1]] for line in lines]


def documented_modules() -> dict[str, list[str]]:
    """Public modules with the names that docs/api.md lists for them."""
    found = {"lagotto": [name for names, _ in rows("lagotto") for name in names]}
    for section in ("Families", "Building blocks", "Testing"):
        found |= {module: names for (module,), names in rows(section)}
    return found


@cache
def public_names(module: str) -> frozenset[str]:
    """What may be imported from a module: its `__all__`, or else what docs/api.md lists."""
    documented = documented_modules()
    if module not in documented:
        return frozenset()
    found = frozenset(getattr(import_module(module), "__all__", documented[module]))
    return found | {"open"} if module == "lagotto" else found


def imports(page: Path) -> Iterator[tuple[str, str]]:
    """Modules of Lagotto that the examples of a page import, with the names they take."""
    for match in EXAMPLE.finditer(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(match.group(1))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lagotto"):
                yield from ((node.module or "", alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                names = (alias.name for alias in node.names)
                assert not [name for name in names if name.startswith("lagotto.")], page


def classes_in(annotation: Any) -> Iterator[type]:
    """The classes that an annotation names, inside of lists and unions too."""
    if isclass(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from classes_in(argument)


def classes_of(module: ModuleType, root: type) -> set[str]:
    members = getmembers(module, isclass)
    return {name for name, member in members if issubclass(member, root)}


def test_every_public_name_can_be_imported() -> None:
    assert len(set(lagotto.__all__)) == len(lagotto.__all__)
    # `from lagotto import *` leaves Python's own names alone; lagotto.open has its module's name.
    assert not set(lagotto.__all__).intersection(vars(builtins))
    assert set(lagotto.__all__) <= set(dir(lagotto))
    for name, value in PUBLIC.items():
        assert value.__name__ == name
        assert value.__doc__, f"{name} has no docstring"


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Doccument'"):
        lagotto.Doccument  # noqa: B018


LATER = {
    **vars(context),
    **{name: getattr(readers, name) for name in dir(readers)},
    **vars(ingest),
    **vars(export),
    **vars(judgements),
    "OnRebuildProgress": rebuild.OnProgress,
    "RebuildProgress": rebuild.RebuildProgress,
}
"""What base/knowledge_base.py imports when it is needed."""


def test_what_a_knowledge_base_returns_is_public() -> None:
    for name, method in getmembers(AsyncKnowledgeBase, isfunction):
        if not name.startswith("_"):
            returned = set(classes_in(get_type_hints(method, localns=LATER)["return"]))
            ours = {kind for kind in returned if kind.__module__.startswith("lagotto.")}
            assert ours <= set(PUBLIC.values()), name


def test_every_group_of_preferences_is_public() -> None:
    groups = {
        kind
        for field in RetrievalPrefs.model_fields.values()
        for kind in classes_in(field.annotation)
        if issubclass(kind, Record)
    }
    assert len(groups) >= 12
    assert groups <= set(PUBLIC.values())


def test_every_error_and_every_filter_is_public() -> None:
    assert classes_of(errors, LagottoError) <= set(PUBLIC)
    found = classes_of(filters, Filter).intersection(filters.__all__)
    assert found - {"Condition"} <= set(PUBLIC)


def test_every_public_name_is_documented() -> None:
    documented = set(documented_modules()["lagotto"])
    assert set(PUBLIC) - documented == classes_of(errors, LagottoError) - {"LagottoError"}


@pytest.mark.parametrize("module", documented_modules())
def test_a_public_module_has_what_it_promises(module: str) -> None:
    found = import_module(module)
    assert public_names(module)
    assert public_names(module) <= set(dir(found))
    assert set(documented_modules()[module]) <= public_names(module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_import_public_names(page: Path) -> None:
    private = [
        f"from {module} import {name}"
        for module, name in imports(page)
        if name not in public_names(module)
    ]
    assert not private
