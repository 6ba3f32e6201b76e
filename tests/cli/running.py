"""Runs commands as the entry point does, in this process or in one of its own."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mcp  # noqa: F401  its client keeps the stderr of its first import, which `run` may redirect
from lagotto.cli import main


@dataclass(frozen=True)
class Run:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*args: str | Path) -> Run:
    """A command in this process, without the lines of progress that slow machines show."""
    out, err = io.StringIO(), io.StringIO()
    quiet = patch("lagotto.cli.progress.FIRST_LINE", math.inf)
    with redirect_stdout(out), redirect_stderr(err), quiet:
        code = main([str(arg) for arg in args])
    return Run(code, out.getvalue(), err.getvalue())


def command(args: Sequence[str | Path]) -> list[str]:
    """The words that start a command in a process of its own."""
    return [sys.executable, "-m", "lagotto", *map(str, args)]


def run_apart(*args: str | Path) -> Run:
    """A command in a process of its own."""
    done = subprocess.run(command(args), capture_output=True, text=True, encoding="utf-8")
    return Run(done.returncode, done.stdout, done.stderr)
