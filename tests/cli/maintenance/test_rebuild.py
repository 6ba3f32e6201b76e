from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from lagotto.base.rebuild import RebuildProgress
from tests.cli.running import command, run

pytestmark = pytest.mark.slow


def test_a_base_is_rebuilt_with_another_model(base: Path) -> None:
    before = run("--kb", base, "retrieve", "truffle", "--json").json["results"]
    done = run("--kb", base, "rebuild", "--embedder", "minilm-int8", "--text-index", "fts5")
    assert done.code == 0, done.err
    assert done.out.startswith("4 documents rebuilt (")
    info = run("--kb", base, "info", "--json").json
    assert (info["embedder"], info["model_id"]) == ("minilm-int8", "all-MiniLM-L6-v2-int8")
    assert (info["text_index"], info["chunker_id"]) == ("fts5", "prose:256/32")
    after = run("--kb", base, "retrieve", "truffle", "--json").json["results"]
    assert [hit["document_id"] for hit in after] == [hit["document_id"] for hit in before]


def test_the_report_as_json(base: Path) -> None:
    done = run("rebuild", "--kb", base, "--chunker", "sentence:64/8", "--json")
    report = RebuildProgress.model_validate(done.json)
    assert (report.documents, report.done) == (4, 4)
    assert run("--kb", base, "info", "--json").json["chunker_id"] == "sentence:64/8"


def test_the_environment_does_not_change_a_base(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAGOTTO_EMBEDDER", "minilm-int8")
    assert run("--kb", base, "rebuild").code == 0
    assert run("--kb", base, "info", "--json").json["embedder"] == "minilm"
    done = run("--kb", base, "retrieve", "truffle")
    assert done.code == 4
    assert "`lagotto rebuild --embedder minilm-int8`" in done.err


def test_another_choice_names_the_command(base: Path, notes: Path) -> None:
    done = run("--kb", base, "add", notes, "--chunker", "sentence:64/8")
    assert done.code == 2
    assert "`lagotto rebuild --chunker sentence:64/8`" in done.err


def test_there_must_be_a_base() -> None:
    assert run("rebuild", "--kb", "none.db").code == 5


@pytest.mark.usefixtures("interruptible")
def _chunks_of_next(base: Path) -> int:
    with closing(sqlite3.connect(base)) as file:
        (count,) = file.execute("SELECT count(*) FROM chunk WHERE generation = 1").fetchone()
    return int(count)


LONG = "Oak and hazel and lime. " * 40
"""Long enough that a rebuild stores documents well before its end."""


def test_an_interrupted_rebuild_is_resumed(tmp_path: Path) -> None:
    folder, base = tmp_path / "many", tmp_path / "kb.db"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number:04}.md").write_text(f"# Note {number}\n\n{LONG} {number}.")
    assert run("--kb", base, "add", folder).code == 0
    words = command(["--kb", base, "rebuild", "--embedder", "minilm-int8"])
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not _chunks_of_next(base):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    said = re.fullmatch(
        r"stopped: the base is unchanged; (\d+) rebuilt documents kept; "
        r"run the same command again to continue\n",
        err,
    )
    assert said, err
    assert run("--kb", base, "info", "--json").json["embedder"] == "minilm"
    report = run("--kb", base, "rebuild", "--embedder", "minilm-int8", "--json").json
    assert report["done"] == 300
    assert report["resumed"] == int(said[1]) > 0
    assert run("--kb", base, "info", "--json").json["embedder"] == "minilm-int8"
