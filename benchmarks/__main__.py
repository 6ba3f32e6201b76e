"""Run a benchmark by its name.

python benchmarks               # all names
python benchmarks NAME --help   # what it measures, and its options
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> int:
    names = benchmarks()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in names:
        print("usage: python benchmarks NAME [--help] ...\n")
        print("\n".join(f"{each:12} {about}" for each, about in names.items()))
        return int(name not in ("", "-h", "--help"))
    sys.argv = [f"benchmarks {name}", *sys.argv[2:]]
    return importlib.import_module(name).main() or 0


def benchmarks() -> dict[str, str]:
    """The modules of this folder that have a `main`, and the first line of their docstrings."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in functions and path.stem != "__main__":
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


if __name__ == "__main__":
    sys.exit(main())
