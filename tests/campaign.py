"""A few rounds of `python benchmarks campaign`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run_campaign(part: str, kinds: str, *, count: int) -> dict[str, dict[str, Any]]:
    """The counts of `count` rounds of a part, by kind of base; nothing was found in any."""
    command = [sys.executable, str(BENCHMARKS), "campaign", "--parts", part, "--kinds", kinds]
    done = subprocess.run(
        [*command, f"--{part}", str(count), "--seed", "7", "--json"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    counts: dict[str, dict[str, Any]] = json.loads(done.stdout)[part]
    for found in counts.values():
        assert found["findings"] == {"lost": [], "ghosts": [], "wrong": []}, found["findings"]
    return counts
