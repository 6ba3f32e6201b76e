from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.running import command, run

pytestmark = pytest.mark.slow


@contextmanager
def watching(base: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`lagotto watch` in a process of its own, once it is watching."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(["--kb", base, "watch", folder]),
        stdout=pipe, stderr=pipe, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("note: 1 new document in de")
            assert process.stderr.readline().startswith("watching")
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("interruptible")
def test_changes_arrive_until_ctrl_c(notes: Path, tmp_path: Path) -> None:
    base = tmp_path / "kb.db"
    with watching(base, notes) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("4 added")
        whole = tmp_path / "oaks.md"  # never seen while it is half written
        whole.write_text("# Oaks\n\nOaks grow slowly.\n", encoding="utf-8")
        whole.rename(notes / "oaks.md")
        assert process.stdout.readline().startswith("1 added, 0 updated")
        (notes / "dogs.md").unlink()
        assert ", 1 removed (" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "stopped; what was added is stored\n"
    titles = {item["title"] for item in run("--kb", base, "list", "--json").json}
    assert titles == {"Oaks", "Truffles", "Bergwandern", "codes"}


def test_the_missing_package_is_named(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    done = run("--kb", tmp_path / "kb.db", "watch", notes)
    assert done.code == 2
    assert "pip install 'lagotto[watch]'" in done.err
    assert not (tmp_path / "kb.db").exists()
