"""Tests mirror the package: `tests/a/test_b.py` tests the module or package `lagotto/a/b`.

A module whose tests are several files has a folder of its name: `tests/a/b/test_part.py`.
Tests of a behaviour that runs through many modules are listed in BEHAVIOURS, with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lagotto

TESTS = Path(__file__).parent
PACKAGE = Path(lagotto.__file__).parent
MODULES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))

FOLDERS = {
    "conformance": "the reference designs, which use all of the package",
}
BEHAVIOURS = {
    "synonyms": "a collection's synonyms, from where they are set to what is found",
    # stores and indexes
    "rebuild": "a base on a server keeps the contract of rebuilding",
    "remote_indexes": "a base on a server with indexes behind a network",
    "cluster": "several nodes, of which some are killed",
    "base_with_it": "a base with an index of this kind answers as any other",
    "faiss_example": "the index in docs/indexes.md keeps the contracts",
    # the repository
    "architecture": "ARCHITECTURE.md shows the tree of the package",
    "benchmarks": "every benchmark starts",
    "regexes": "every regular expression takes linear time",
    "deletions": "every call in the package that deletes something",
    "docs": "pages of docs/ and the code agree",
    "layers": "imports point down",
    "layout": "this module",
    "links": "links, files and commands in the documentation",
    "package": "imports and names of all modules",
    "start_up": "what a command imports",
    "public_api": "public names of all modules",
    "sessions": "the sessions shown in README.md and the docs",
    "sql": "modules that may contain SQL",
    "site": "the documentation as a site",
    # contracts and properties that several implementations share
    "against_brute_force": "vector indexes compared with a plain scan",
    "folder_sync": "sync on a server as in a file",
    "copies": "a base goes to a server and comes back as it was",
    "answers": "PostgreSQL compared with the in-memory store",
    "contract": "all implementations of a family against its contract",
    "filters": "filters in every leg and every view of a search",
    "fuzz": "readers, or the server, and random input",
    "security": "attacks on the server",
    "two_servers": "two servers on one base while a third process writes",
    "proxy": "nginx in front of a server",
    "mcp_tools": "the tools of MCP on a PostgreSQL base",
    "leaks": "what a key hides, at every operation of the server",
    "hostile": "readers and files made to break them",
    "forks": "bases in forked processes, other event loops and without close",
    "hostile_arguments": "arguments that no base can hold, in Python and on the command line",
    "passwords": "no command and no error shows a password",
    "views": "views of the server's page",
    # faults, processes, time
    "clients": "several clients of one PostgreSQL base",
    "crash": "killed processes and servers, damaged files, many processes at once",
    "crashes": "killed writers and faults at any step",
    "damaged_file": "a damaged database file",
    "damaged_indexes": "damaged index files",
    "failures": "a full disk, missing permissions",
    "history": "copies of a base that diverge, and its indexes",
    "index_folder": "the folder of indexes beside a database file",
    "chunk_texts": "texts of chunks stored beside them, linear time",
    "interrupt": "cancelled searches",
    "outages": "a server that restarts, fails over or is gone",
    "processes": "several processes on one base",
    "writers": "concurrent writers",
    # others
    "accessibility": "every view of the server's page, for everybody",
    "main": "the entry point, which is cli/__init__.py",
}


def mirrors_a_module(path: Path) -> bool:
    """Whether a test module is named after the module or package that it tests."""
    folder, name = PACKAGE / path.parent, path.stem.removeprefix("test_")
    return (
        folder.with_suffix(".py").is_file()
        or (folder / f"{name}.py").is_file()
        or (folder / name).is_dir()
        or (folder.is_dir() and folder.name == name)
        or (folder / "assets" / f"{name}.js").is_file()
    )


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_test_module_mirrors_a_module_or_names_a_behaviour(path: Path) -> None:
    name = path.stem.removeprefix("test_")
    assert path.parts[0] in FOLDERS or name in BEHAVIOURS or mirrors_a_module(path)


def test_every_exception_is_needed() -> None:
    needed = {path.stem.removeprefix("test_") for path in MODULES if not mirrors_a_module(path)}
    assert set(BEHAVIOURS) <= needed
    assert all((TESTS / folder).is_dir() for folder in FOLDERS)
