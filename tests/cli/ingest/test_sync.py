from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_sync_removes_what_is_gone(notes: Path) -> None:
    run("sync", notes)
    (notes / "dogs.md").unlink()
    assert run("sync", notes).out.startswith("0 added, 0 updated, 3 unchanged, 1 removed")


def test_sync_wants_folders_that_exist(base: Path) -> None:
    assert run("--kb", base, "sync", "absent").code == 2
    assert run("--kb", base, "sync", base).code == 2
    assert len(run("--kb", base, "list", "--json").json) == 4
