"""No command and no error shows a password, however the address is spelt."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from lagotto._internal.locations import mask_location
from lagotto.base.blocking import KnowledgeBase
from lagotto.errors import LagottoError
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import run

SECRET = "hunter2"
NOWHERE = "127.0.0.1:1"
SPELLINGS = [
    f"postgresql://u:{SECRET}@{NOWHERE}/db",
    f"postgres://u:{SECRET}@{NOWHERE}/db",
    f"postgresql://u:{SECRET}@{NOWHERE}",
    f"postgresql://:{SECRET}@{NOWHERE}/db",
    f"postgres+psycopg://u:{SECRET}@{NOWHERE}/db",
    f"postgresql+asyncpg://u:{SECRET}@{NOWHERE}/db",
    f"mysql://u:{SECRET}@host/db",
    f"mysql://u:{SECRET}@ss@host/db",
    f"postgresql://u:p@{SECRET}@{NOWHERE}/db",
    f"postgresql://u:p/{SECRET}@{NOWHERE}/db",
    f"postgresql://u:p?{SECRET}@{NOWHERE}/db",
    f"postgresql://u:p%40{SECRET}@{NOWHERE}/db",
    f"postgresql://u:p {SECRET}'x\"@{NOWHERE}/db",
    f"postgresql://u:{SECRET}@host:port/db",
    f"postgresql://u:{SECRET}@host:99999999/db",
    f"postgresql://u:{SECRET}@h1,h2:x/db",
    f"postgresql://u:{SECRET}@127.0.0.1:1,127.0.0.1:2/db",
    f"postgresql://u:p/{SECRET}@h1,h2/db",
    f"postgresql://{NOWHERE}/db?user=u&password={SECRET}",
    f"postgresql://{NOWHERE}/db?PASSWORD={SECRET}",
    f"postgresql://{NOWHERE}/db?sslpassword={SECRET}&nonsense=1",
    f"postgresql://u:{SECRET}@[::1/db",
    f"postgresql:/u:{SECRET}@host/db",
    f"u:{SECRET}@host/db",
    f"host=localhost password={SECRET} dbname=db",
    f"host=localhost password='my {SECRET}' dbname=db",
]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAGOTTO_KB", raising=False)


@pytest.mark.parametrize("location", SPELLINGS)
def test_errors_of_a_base(location: str) -> None:
    with pytest.raises(LagottoError) as told:
        KnowledgeBase(location, embedder=HashEmbedder())
    assert SECRET not in str(told.value)
    assert SECRET not in repr(told.value)
    chain = "".join(traceback.format_exception(told.value))
    assert SECRET not in chain.replace(repr(location), "")


@pytest.mark.parametrize("location", SPELLINGS)
def test_output_of_commands(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.cwd() / "notes").mkdir()
    (Path.cwd() / "notes" / "a.md").write_text("A text.")
    monkeypatch.setenv("LAGOTTO_DEBUG", "1")
    runs = [
        run("--kb", location, "info"),
        run("--kb", location, "add", "notes"),
        run("--kb", location, "doctor"),
        run("--kb", location, "remove", "--filters", "{}"),
        run("copy", location, "copy.db"),
        run(location),  # no such command
        run("--kb", location, "info", location),  # one argument too many
    ]
    monkeypatch.setenv("LAGOTTO_KB", location)
    runs += [run("info"), run("retrieve", "x")]
    for done in runs:
        assert done.code != 0
        assert SECRET not in done.out + done.err


def test_the_target_of_a_copy_and_unexpected_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.cwd() / "a.md").write_text("A text.")
    assert run("--kb", "kb.db", "add", "a.md").code == 0
    for location in SPELLINGS:
        done = run("copy", "kb.db", location)
        assert SECRET not in done.out + done.err

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"connect to {location} with {SECRET}")

    monkeypatch.setenv("LAGOTTO_DEBUG", "1")
    monkeypatch.setattr(KnowledgeBase, "__init__", fail)
    location = SPELLINGS[0]
    done = run("--kb", location, "add", "a.md")
    assert done.code == 70
    assert "Traceback" in done.err
    assert SECRET not in done.err


def test_what_a_location_looks_like() -> None:
    assert mask_location("postgresql://u:secret@h/db") == "postgresql://u:***@h/db"
    assert mask_location("postgresql://u@h/db") == "postgresql://u@h/db"
    assert mask_location("postgresql://h/db?a=1&password=x&b=2") == (
        "postgresql://h/db?a=1&password=***&b=2"
    )
    for path in ("kb.db", "/home/me/kb.db", "a b/kb.db", r"C:\notes\kb.db", os.fspath(Path.cwd())):
        assert mask_location(path) == path
