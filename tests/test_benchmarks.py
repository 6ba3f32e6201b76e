"""Every benchmark starts: what it imports exists, and it prints its help."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
OPTIONAL = {"asyncpg"}
"""Libraries that a benchmark compares with, and that need not be installed."""

START_ALL = """
import contextlib, importlib, io, json, sys
problems = {}
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    try:
        module = importlib.import_module(name)
        with contextlib.redirect_stdout(io.StringIO()):
            getattr(module, "main", sys.exit)()
    except ImportError as exc:
        problems[name] = exc.name
    except SystemExit as exc:
        if exc.code:
            problems[name] = str(exc.code)
print(json.dumps(problems))
"""


@pytest.mark.slow
def test_every_benchmark_starts() -> None:
    """Import each one, and ask those that are commands for their help."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) > 15
    command = [sys.executable, "-c", START_ALL, *names]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    problems = json.loads(done.stdout)
    assert {name: why for name, why in problems.items() if why not in OPTIONAL} == {}


def test_mutations_are_one_change_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make mutants` tries: operators, constants, boundaries, arguments, what is left out."""
    monkeypatch.syspath_prepend(str(FOLDER))
    mutations = importlib.import_module("mutations").mutations
    source = (
        '"""A docstring stays."""\n'
        "def f(x: int | None = 3) -> float:\n"
        "    if x is None or x < 2:\n"
        '        raise ValueError("a message stays")\n'
        "    x += max(x, 1.5)\n"
        '    return x if x == "é" else -x\n'
    )
    changed = [mutant.lines(source)[1] for mutant in mutations("f.py", source)]
    assert changed == [
        "def f(x: int | None = 2) -> float:",
        "def f(x: int | None = 4) -> float:",
        "if (not (x is None or x < 2)):",
        "if (x < 2):",
        "if (x is None):",
        "if x is not None or x < 2:",
        "if x is None and x < 2:",
        "if x is None or x <= 2:",
        "if x is None or x < 3:",
        "pass",
        "pass",
        "x += min(x, 1.5)",
        "x += (1.5)",
        "x += (x)",
        "x += max(x, 2.25)",
        "return None",
        'return x if (not (x == "é")) else -x',
        'return x if x != "é" else -x',
        "return x if x == 'XXé' else -x",
        'return x if x == "é" else (x)',
    ]
    source = (
        "MOST = 4\n"
        'EDGES = " .,"\n'
        'LEGS = ("text", "fuzzy")\n'
        "def f(a, b):\n"
        "    a = g(a, b)\n"
        "    c = [a, *b[a:2]]\n"
        "    return replace(c, x=a, y={'k': a})\n"
    )
    changed = [mutant.lines(source)[1] for mutant in mutations("f.py", source)]
    assert changed == [
        "MOST = 3",
        "MOST = 5",
        "EDGES = ' .'",
        "LEGS = ('XXtext', \"fuzzy\")",
        'LEGS = ("text",)',
        "LEGS = (\"text\", 'XXfuzzy')",
        "pass",
        "a = g(b, a)",
        "c = [*b[a:2]]",
        "c = [a]",
        "c = [a, *b[(a) + 1:2]]",
        "c = [a, *b[a:3]]",
        "return None",
        "return replace(c, x=a)",
        "return replace(c, x=a, y={'XXk': a})",
    ]
    toml = '[scoring]\nblend = "rrf"\nfill = false\nrrf_k = 60\nw_vec = 0.7\n'
    changed = [mutant.lines(toml)[1] for mutant in mutations("preset.toml", toml)]
    assert changed == ['blend = "linear"', "fill = true", "rrf_k = 61", "w_vec = 0.35"]
