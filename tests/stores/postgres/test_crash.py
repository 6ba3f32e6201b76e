"""Nothing that was acknowledged is lost when the writing process or the server is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.stores.postgres.schemas import need_a_server_to_stop

CAMPAIGN = Path(__file__).parents[3] / "benchmarks" / "crash.py"
REBUILDS = CAMPAIGN.with_name("crash_rebuild.py")


def test_a_killed_writer_or_server_loses_nothing() -> None:
    need_a_server_to_stop()
    command = [sys.executable, str(CAMPAIGN), "--store", "postgresql", "--server", "--kills", "4"]
    said = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    outcome = json.loads(said)["postgresql"]
    assert outcome["kills"] == 4
    assert outcome["acknowledged"] > 0
    assert outcome["lost"] == []
    assert outcome["inconsistent"] == []


def test_a_killed_rebuild_leaves_a_whole_state() -> None:
    need_a_server_to_stop()
    command = [sys.executable, str(REBUILDS), "--store", "postgresql", "--server", "--kills", "4"]
    said = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    outcome = json.loads(said)["postgresql"]
    assert outcome["kills"] == 4
    assert outcome["wrong"] == []
