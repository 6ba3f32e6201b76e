"""Nothing that was acknowledged is lost when the writing process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CAMPAIGN = Path(__file__).parents[3] / "benchmarks" / "crash.py"
REBUILDS = CAMPAIGN.with_name("crash_rebuild.py")


def test_a_killed_writer_loses_nothing() -> None:
    command = [sys.executable, str(CAMPAIGN), "--kills", "5", "--seed", "7", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    outcomes = json.loads(said)
    assert outcomes["tantivy"]["kills"] == 3
    assert outcomes["fts5"]["kills"] == 2
    for outcome in outcomes.values():
        assert outcome["acknowledged"] > 0
        assert outcome["lost"] == []
        assert outcome["inconsistent"] == []


def test_a_killed_rebuild_leaves_a_whole_state() -> None:
    command = [sys.executable, str(REBUILDS), "--kills", "6", "--seed", "7", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    outcomes = json.loads(said)
    assert {kind: outcome["kills"] for kind, outcome in outcomes.items()} == {
        "tantivy": 3,
        "fts5": 3,
    }
    for outcome in outcomes.values():
        assert outcome["wrong"] == []
