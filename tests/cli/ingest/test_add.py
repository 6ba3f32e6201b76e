from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.running import command, run
from tests.servers.scripted import ScriptedServer

pytestmark = pytest.mark.slow


def listed(base: Path, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = run("--kb", base, "list", "--json", *arguments).json
    return found


def test_adding_twice_changes_nothing(notes: Path) -> None:
    first = run("add", notes)
    assert first.code == 0
    assert first.out.startswith("4 added, 0 updated, 0 unchanged (4 chunks")
    assert first.err.startswith("note: 1 new document in de")
    assert run("add", notes).out.startswith("0 added, 0 updated, 4 unchanged")
    assert Path("lagotto.db").exists()


def test_the_json_report(base: Path, tmp_path: Path) -> None:
    (tmp_path / "more.md").write_text("# More\n\nStill more.")
    report = run("--kb", base, "add", tmp_path / "more.md", "--json").json
    assert report.pop("seconds") > 0
    assert report == {
        "added": 1, "updated": 0, "unchanged": 0, "removed": 0, "chunks": 1, "failures": [],
        "skipped": {"counts": {}, "folders": 0, "files": []}, "notes": [],
    }  # fmt: skip


def test_a_text_with_white_space_of_any_kind_is_added(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("An ordinary text about truffles.")
    (folder / "b.txt").write_text("plan A\xa0. Because it is.", encoding="utf-8")
    done = run("--kb", tmp_path / "kb.db", "add", folder)
    assert (done.code, done.out[:7]) == (0, "2 added")
    packed = run("--kb", tmp_path / "kb.db", "context", "because", "--max-tokens", "12")
    assert packed.code == 0
    assert "Because" in run("--kb", tmp_path / "kb.db", "search", "because").out


def test_failures_are_listed_and_the_rest_is_added(base: Path, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nothing else")
    done = run("--kb", base, "add", tmp_path / "good.md", tmp_path / "bad.pdf")
    assert done.code == 3
    assert done.out.startswith("1 added")
    failed = done.err.splitlines()[-1]  # on a slow machine, after lines of progress
    assert failed.startswith(f"failed: {tmp_path / 'bad.pdf'}: ")


def test_paths_that_give_nothing_are_errors(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good")
    (tmp_path / "none").mkdir()
    base = tmp_path / "new.db"
    for path, said in (("absent.md", "no such file or folder"), ("none", "no files to read")):
        done = run("--kb", base, "add", tmp_path / "good.md", tmp_path / path)
        assert (done.code, done.out) == (3, "")
        assert said in done.err
        assert not base.exists()


def test_a_text_in_place_of_a_path(tmp_path: Path) -> None:
    done = run("--kb", tmp_path / "new.db", "add", "nowhere")
    advice = "to add a text, save it in a file"
    assert done.err == f"lagotto: nowhere: no such file or folder; {advice}\n"


def test_what_is_skipped_is_counted_and_named(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "good.md").write_text("# Good")
    (folder / "empty.md").write_text("")
    (folder / "id_rsa").write_text("key")
    (folder / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    done = run("--kb", base, "add", folder)
    assert done.code == 0
    assert done.out.splitlines()[1] == "3 files skipped: 1 .png, 1 empty, 1 secret"
    assert done.err == ""
    named = run("--kb", base, "add", folder, "--verbose").err.splitlines()
    skipped = [line.rpartition("/")[2] for line in named if line.startswith("skipped: ")]
    assert sorted(skipped) == [
        "cat.png: unsupported",
        "empty.md: empty",
        "id_rsa: secret",
    ]
    assert run("--kb", base, "add", folder, "--no-ignore").out.startswith("1 added")


def test_documents_that_no_base_can_hold_fail_alone(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    deep = '{"a":' * 260 + "1" + "}" * 260
    (folder / "deep.jsonl").write_text(f'{{"text": "x", "m": {deep}}}\n{{"text": "two"}}\n')
    (folder / "half.jsonl").write_text(
        r'{"id": "\ud800", "text": "x"}' + "\n" + r'{"text": "\ud800", "m": "\udfff"}' + "\n"
    )
    (folder / "time.md").write_text(f"---\na: 1{':59' * 3_000}\n---\n# T\n\nText\n")
    (folder / "wide.csv").write_text("id,text\n1,a\n2,b,c,d\n3,e\n")
    done = run("--kb", base, "add", folder)
    assert done.code == 3
    assert done.out.startswith("6 added")
    failed = done.err.splitlines()
    assert [line.partition(": line ")[0] for line in failed] == [
        f"failed: {folder / 'deep.jsonl'}", f"failed: {folder / 'wide.csv'}"
    ]  # fmt: skip
    assert "nested more than 64 levels" in failed[0]


def test_a_folder_that_holds_the_base_itself(notes: Path) -> None:
    base = notes / "kb.db"
    assert run("--kb", base, "add", notes).code == 0
    assert run("--kb", base, "retrieve", "truffles").code == 0  # makes the indexes
    again = run("--kb", base, "add", notes)
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("0 added, 0 updated, 4 unchanged")


def test_options_reach_the_documents(notes: Path) -> None:
    done = run(
        "add", notes, "--include", "*.md", "--exclude", "dogs.md", "--collection", "wiki",
        "--language", "en", "--metadata", "year=2024", "--metadata", "team=a b", "--chunker",
        "sentence", "--text-index", "fts5",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = listed(Path("lagotto.db"))
    assert {Path(str(item["source"])).name for item in found} == {"truffles.md", "bergwandern.md"}
    for item in found:
        assert (item["collection"], item["language"]) == ("wiki", "en")
        assert item["metadata"] == {"year": 2024, "team": "a b"}
    assert run("info", "--json").json["chunker_id"].startswith("sentence")
    refused = run("add", notes, "--text-index", "tantivy")
    assert refused.code == 2
    assert "text_index='fts5'" in refused.err


def test_web_addresses(base: Path) -> None:
    refused = run("--kb", base, "add", "http://127.0.0.1:9/a")
    assert refused.code == 3
    assert "not a public address; allow private addresses (--allow-private)" in refused.err
    allowed = run("--kb", base, "add", "http://127.0.0.1:9/a", "--allow-private")
    assert "can't fetch it" in allowed.err


def test_columns_of_rows(tmp_path: Path, base: Path) -> None:
    rows = [{"key": "a1", "head": "Oak", "body": "A tree.", "more": "With acorns."}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run(
        "--kb", base, "add", tmp_path / "rows.jsonl", "--text-column", "body", "--text-column",
        "more", "--title-column", "head", "--id-column", "key",
    )  # fmt: skip
    assert done.code == 0, done.err
    shown = run("--kb", base, "show", "a1", "--json").json
    assert (shown["title"], shown["text"]) == ("Oak", "A tree.\n\nWith acorns.")


def test_a_failing_embedder_is_one_line(notes: Path) -> None:
    with ScriptedServer({}) as server:
        done = run("--embedder", f"openai:x?dimension=8&base_url={server.url}", "add", notes)
    assert done.code == 4
    assert done.err.startswith(f"lagotto: {server.url}/embeddings ")
    assert len(done.err.splitlines()) == 1


def test_progress_is_shown_on_a_terminal_and_json_stays_json(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    done = run("add", notes, "--json")
    assert done.json["added"] == 4
    assert "4 read, 4 of 4 chunks" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.err)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_all_that_was_reported(tmp_path: Path) -> None:
    folder, base = tmp_path / "many", tmp_path / "kb.db"
    folder.mkdir()
    for number in range(4000):
        (folder / f"{number:04}.md").write_text(f"# Note {number}\n\nOak and hazel, {number}.")
    process = subprocess.Popen(
        command(["--kb", base, "add", folder]), stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not stored(base):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    begun, *_, last = err.splitlines()
    assert begun.startswith("reading 4,000 files, ")
    said = re.fullmatch(
        r"stopped: (\d+) documents stored; run the same command again to continue", last
    )
    assert said, err
    assert 0 < int(said[1]) == stored(base) < 4000
    assert run("--kb", base, "retrieve", "hazel", "--json").json["results"]


def stored(base: Path) -> int:
    """How many documents another process has stored so far."""
    if not base.exists():
        return 0
    with closing(sqlite3.connect(base)) as file:
        try:
            return int(file.execute("SELECT count(*) FROM document").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet, or just being made
            return 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--embedder", "nonsense", "add", "notes.txt"],
        ["add", "missing.txt"],
        ["add", "broken.pdf"],
        ["add", "notes.txt", "--chunker", "recursive:0/5"],
        ["add", "notes.txt", "--metadata", "nonsense"],
        ["import", "broken.pdf"],
    ],
)
def test_a_command_that_fails_leaves_no_base(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("Oaks are old.")
    Path("broken.pdf").write_bytes(b"%PDF-1.4 broken")
    assert run("--kb", "new.db", *arguments).code != 0
    assert not list(tmp_path.glob("new.db*"))


def test_a_failed_command_keeps_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("Oaks are old.")
    Path("broken.pdf").write_bytes(b"%PDF-1.4 broken")
    assert run("--kb", "new.db", "add", "notes.txt", "broken.pdf").code == 3
    assert len(listed(Path("new.db"))) == 1


def test_the_files_of_a_base_beside_its_documents_are_not_mentioned(notes: Path) -> None:
    base = notes / "kb.db"
    (notes / "other.db").write_bytes(b"\0\1\2" * 40)
    for _ in range(2):
        done = run("--kb", base, "add", notes)
        assert done.code == 0
        assert done.out.splitlines()[1:] == ["1 file skipped: 1 .db"]
        run("--kb", base, "retrieve", "truffles")


def test_a_list_without_documents_says_so(base: Path) -> None:
    done = run("--kb", base, "list", "--collection", "nope")
    assert (done.code, done.out, done.err) == (
        0,
        "",
        "warning: there is no collection 'nope'\nno documents\n",
    )


def test_sync_removes_what_is_gone(notes: Path) -> None:
    run("sync", notes)
    (notes / "dogs.md").unlink()
    assert run("sync", notes).out.startswith("0 added, 0 updated, 3 unchanged, 1 removed")


def test_sync_wants_folders_that_exist(base: Path) -> None:
    assert run("--kb", base, "sync", "absent").code == 2
    assert run("--kb", base, "sync", base).code == 2
    assert len(run("--kb", base, "list", "--json").json) == 4


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
        assert process.stdout.readline().startswith("  added: ")
        whole = tmp_path / "oaks.md"  # never seen while it is half written
        whole.write_text("# Oaks\n\nOaks grow slowly.\n", encoding="utf-8")
        whole.rename(notes / "oaks.md")
        assert process.stdout.readline().startswith("1 added, 0 updated")
        assert process.stdout.readline() == "  added: notes/oaks.md\n"
        (notes / "dogs.md").unlink()
        assert ", 1 removed (" in process.stdout.readline()
        assert process.stdout.readline() == "  removed: notes/dogs.md\n"
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
