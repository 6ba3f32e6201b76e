"""Every benchmark can be started: what it imports is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
OPTIONAL = {"asyncpg"}
"""Libraries that a benchmark compares with, and that need not be installed."""

IMPORT_ALL = """
import importlib, json, sys
missing = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as exc:
        missing[name] = [exc.name, str(exc)]
print(json.dumps(missing))
"""


@pytest.mark.slow
def test_every_benchmark_can_be_imported() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) > 15
    command = [sys.executable, "-c", IMPORT_ALL, *names]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)
    assert {name: why for name, why in missing.items() if why[0] not in OPTIONAL} == {}
