"""Where the demo puts its base: found out without embedding a corpus."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from lagotto.cli.demo import demo_place
from tests.cli.running import run


def test_a_temporary_base_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with demo_place(None, keep=False) as place:
        assert Path(place).parent.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_base_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with demo_place(None, keep=True) as place:
        Path(place).touch()
    assert Path(place).exists()


def test_the_base_of_the_environment_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_KB", "/absent/kb.db")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = run("--embedder", "nonsense", "demo", "--keep")
    assert done.err.startswith("lagotto: no embedder is called 'nonsense'")
    assert [path.name[:13] for path in tmp_path.iterdir()] == ["lagotto-demo-"]


def test_a_base_that_was_named_is_used() -> None:
    before = run("--kb", "/absent/kb.db", "demo")
    behind = run("demo", "--kb", "/absent/kb.db")
    assert before == behind
    assert before.code == 5
    assert "there is no folder /absent" in before.err
