from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import run


def test_a_base_that_does_not_exist(tmp_path: Path) -> None:
    done = run("--kb", tmp_path / "none.db", "mcp")
    assert done.code == 5
    assert "there is no base at" in done.err
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("package", ["mcp", "mcp_types"])
def test_without_the_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("lagotto.mcp", "mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = run("mcp")
    assert done.code == 2
    assert f"needs the package {package}, which is not installed" in done.err
    assert "pip install 'lagotto[mcp]'" in done.err


def test_a_server_has_its_own() -> None:
    done = run("--kb", "http://127.0.0.1:1", "mcp", "--http")
    assert done.code == 2
    assert "has MCP itself, at /mcp" in done.err
    done = run("--kb", "http://127.0.0.1:1", "mcp", "--preset", "go-hybrid")
    assert done.code == 2
    assert "the server at this address decides" in done.err


def test_a_server_that_is_not_there(interruptible: None) -> None:
    done = run("--kb", "http://127.0.0.1:1", "mcp")
    assert done.code == 5
    assert "127.0.0.1:1" in done.err
