"""Every benchmark starts: what it imports exists, and it prints its help."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
START_ALL = """
import contextlib, io, json, runpy, sys
sys.path.insert(0, sys.argv[1])
problems = {}
names = runpy.run_path(sys.argv[1])["benchmarks"]()
for name in names:
    sys.argv[1:] = [name, "--help"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(sys.path[0], run_name="__main__")
    except ImportError as exc:
        problems[name] = exc.name
    except SystemExit as exc:
        if exc.code:
            problems[name] = str(exc.code)
print(json.dumps([list(names), problems]))
"""


@pytest.mark.slow
def test_every_benchmark_prints_its_help() -> None:
    command = [sys.executable, "-c", START_ALL, str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, problems = json.loads(done.stdout)
    assert {"quality", "scale", "golden", "campaign"} <= set(names)
    assert problems == {}


def test_all_benchmarks_are_listed() -> None:
    done = subprocess.run([sys.executable, str(FOLDER)], capture_output=True, text=True)
    assert done.returncode == 0
    assert re.search(r"^quality +How well", done.stdout, re.MULTILINE)
    assert subprocess.run([sys.executable, str(FOLDER), "nothing"]).returncode == 1


def test_mutants_are_of_modules_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    names = [path.rpartition("/")[2] for path in importlib.import_module("mutants").sources("")]
    assert {"aiblox.toml", "prefs.py", "fusion.py", "bm25.py"} <= set(names)


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
