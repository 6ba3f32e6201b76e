"""Runs commands as the entry point does, in this process or in one of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """A command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(arg) for arg in args])
    return Run(code, out.getvalue(), err.getvalue())


def command(args: Sequence[str | Path]) -> list[str]:
    """The words that start a command in a process of its own."""
    return [sys.executable, "-m", "lagotto", *map(str, args)]


def run_apart(*args: str | Path) -> Run:
    """A command in a process of its own."""
    done = subprocess.run(command(args), capture_output=True, text=True, encoding="utf-8")
    return Run(done.returncode, done.stdout, done.stderr)
