"""What a search imports, and what it does not: importing is most of what a command costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = {
    *("typer", "shellingham", "annotated_doc"),
    *("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
    *("numpy", "onnxruntime", "tokenizers", "tantivy", "Stemmer"),
}
"""Those that a search in an embedded base needs; SQLAlchemy, the slowest to import, is not."""

UNUSED = """
    base.client base.copy base.export base.ingest base.judgements base.rebuild base.sync base.tool
    context.answer_check embedders.cached embedders.catalog readers.formats readers.language
    readers.loader readers.process rerankers.wrappers server stores.memory stores.postgres testing
"""
"""Modules of Lagotto for reading, adding, serving and other stores."""

PROGRAM = """
import sys
from lagotto.cli import main
code = main(sys.argv[1:])
print("MODULES", *sys.modules)
sys.exit(code)
"""


def modules_of(*arguments: object) -> set[str]:
    """The modules that a command has imported when it ends."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "context"])
def test_a_search_imports_what_it_needs(base: Path, command: str) -> None:
    before = set(sys.stdlib_module_names) | modules_of("--version")
    found = modules_of("--kb", base, command, "which dog finds truffles?")
    libraries = {name.partition(".")[0] for name in found - before}
    others = {name for name in libraries if not name.startswith("_")} - {"cython_runtime"}
    assert others <= LIBRARIES | {"lagotto"} | set(sys.stdlib_module_names)
    assert found & {f"lagotto.{name}" for name in UNUSED.split()} == set()
    assert "numpy.ma" not in found
    assert {"numpy", "lagotto.base.knowledge_base"} <= found
