from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import command, run

pytestmark = pytest.mark.slow


def found(base: Path) -> object:
    """What a search finds, and all about it."""
    done = run("--kb", base, "retrieve", "truffles in october", "--json")
    assert done.code == 0, done.err
    return done.json


def test_a_copy_answers_as_the_base_does(base: Path) -> None:
    done = run("copy", base, "sqlite:///copy.db")
    assert done.code == 0, done.err
    assert done.out.startswith("4 copied, 0 unchanged, 4 verified (4 chunks, ")
    assert done.err == ""
    assert found(Path("copy.db")) == found(base)
    listed = [run("--kb", kb, "list", "--json").json for kb in (base, "copy.db")]
    assert listed[0] == listed[1]


def test_the_json_report(base: Path) -> None:
    run("copy", base, "copy.db")
    report = run("copy", base, "copy.db", "--json").json
    assert report.pop("seconds") > 0
    assert report == {"documents": 4, "copied": 0, "unchanged": 4, "chunks": 0, "verified": 4}


def test_no_embedder_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_EMBEDDER", "nonsense")
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder(), text_index="fts5") as kb:
        kb.add(Document(id="a", text="A text."))
    assert run("copy", "kb.db", "copy.db").code == 0
    with KnowledgeBase(tmp_path / "copy.db", embedder=HashEmbedder()) as copy:
        assert [hit.document_id for hit in copy.retrieve("text")] == ["a"]


def test_a_source_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    done = run("copy", "none.db", "copy.db")
    assert done.code == 5
    assert done.err.startswith("lagotto: there is no base at none.db;")
    assert list(tmp_path.iterdir()) == []


def test_a_target_of_another_model_is_refused(base: Path, tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "other.db", embedder=HashEmbedder()) as kb:
        kb.add(Document(id="a", text="A text."))
    done = run("copy", base, "other.db")
    assert done.code == 4
    assert "other.db has vectors of hash (dimension 64); copy to a new base" in done.err


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_says_how_to_go_on(base: Path) -> None:
    """The interrupt comes while the first batch is written."""
    program = (
        "import os, signal, sys\n"
        "from lagotto.cli import main\n"
        "from lagotto.stores.sqlite.store import SqliteStore\n"
        "write = SqliteStore.write\n"
        "async def interrupted(self, entries):\n"
        "    await write(self, entries)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "SqliteStore.write = interrupted\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = [command([])[0], "-c", program, "copy", str(base), "copy.db"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.startswith("stopped: ")
    assert "run the same command again" in done.stderr
    again = run("copy", base, "copy.db", "--json").json
    assert (again["unchanged"], again["verified"]) == (4, 4)
