from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import run


def test_create_list_revoke(base: Path) -> None:
    made = run(
        "--kb", base, "keys", "create", "--name", "ci", "--scopes", "read,write,admin",
        "--collections", "a,b", "--filter", '{"tenant": "x"}', "--expires", "30d",
    )  # fmt: skip
    assert made.code == 0
    assert made.out.startswith("lgt_")
    (listed,) = run("--kb", base, "keys", "list", "--json").json
    assert listed["name"] == "ci"
    assert listed["scopes"] == ["read", "write", "admin"]
    assert listed["collections"] == ["a", "b"]
    assert listed["filters"] == {"tenant": {"$eq": "x"}}
    assert listed["state"] == "active"
    assert made.out.strip() not in str(listed)
    assert "is revoked" in run("--kb", base, "keys", "revoke", "ci").out
    assert run("--kb", base, "keys", "create", "--name", "\x1b[31mgood").code == 0
    taken = run("--kb", base, "keys", "create", "--name", "\x1b[31mgood")
    assert taken.code == 2
    assert "choose another name" in taken.err
    shown = run("--kb", base, "keys", "list").out
    head, revoked, lasting = shown.splitlines()
    assert head.split() == ["id", "name", "state", "expires", "scopes", "sees"]
    assert f"revoked  {listed['expires_at'][:10]}  " in revoked
    assert "active   never " in lasting
    shown += run("--kb", base, "keys", "revoke", "\x1b[31mgood").out
    assert "good) is revoked" in shown
    assert "\x1b" not in shown  # the name may be another's, who has the base


def test_problems(base: Path) -> None:
    wrong = [
        ["create"],
        ["create", "--name", "n", "--scopes", "root"],
        ["create", "--name", "n", "--expires", "soon"],
        ["create", "--name", "n", "--expires", "2020-01-31"],
        ["create", "--name", "n", "--filters", "{"],
        ["revoke"],
        ["revoke", "none"],
    ]
    for arguments in wrong:
        assert run("--kb", base, "keys", *arguments).code == 2, arguments


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
