"""Every benchmark starts: what it imports exists, and it prints its help."""

from __future__ import annotations

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
