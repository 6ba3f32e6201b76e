"""Every curl command in docs/server.md is run against a server, and answered."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from lagotto.server.endpoints import OPERATIONS
from tests.server.running import serving

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ (curl .*)$", re.MULTILINE)


def test_the_commands_are_answered(tmp_path: Path) -> None:
    commands = COMMAND.findall(PAGE)
    assert len(commands) >= 14
    (tmp_path / "handbook.md").write_text("# Handbook\n\nTruffles are found by dogs.\n")
    with serving() as server:
        for command in commands:
            here = command.replace("localhost:8000", f"127.0.0.1:{server.port}")
            done = subprocess.run(
                f"{here} --fail-with-body --max-time 20", shell=True, capture_output=True,
                text=True, cwd=tmp_path,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            if "events" not in command and "stream" not in command and "metrics" not in command:
                assert json.loads(done.stdout)


def test_every_operation_is_in_the_page() -> None:
    for operation in OPERATIONS:
        start = operation.path.partition("{")[0].rstrip("/")
        assert start in PAGE, operation.path
