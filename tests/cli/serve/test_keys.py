from __future__ import annotations

from pathlib import Path

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
    assert run("--kb", base, "keys", "create", "--name", "for good").code == 0
    taken = run("--kb", base, "keys", "create", "--name", "for good")
    assert taken.code == 2
    assert "is called 'for good'; choose another name" in taken.err
    head, revoked, lasting = run("--kb", base, "keys", "list").out.splitlines()
    assert head.split() == ["id", "name", "state", "expires", "scopes", "sees"]
    assert f"revoked  {listed['expires_at'][:10]}  " in revoked
    assert "active   never " in lasting


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
