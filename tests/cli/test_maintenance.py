from __future__ import annotations

import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.rebuild import RebuildProgress
from lagotto.cli.maintenance import _not_indexed
from lagotto.documents import Document
from lagotto.indexes.base import IndexState
from lagotto.indexes.tantivy.index import TantivyIndex
from lagotto.indexes.vectors import index as vector_index
from lagotto.stores.base import StoreInfo
from lagotto.stores.sql import SCHEMA_VERSION, checks
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import command, run
from tests.stores.sqlite.bases import document, documents, fetch, made, opened, run_sql

pytestmark = pytest.mark.slow

PAGE = 4096

A_PAGE = '{"start": 0, "end": 1, "number": 1}'

Finding = dict[str, str]


@pytest.fixture(params=["tantivy", "fts5"])
def kb(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A base with documents that has been searched."""
    made(tmp_path / "kb.db", text_index=request.param)
    return tmp_path / "kb.db"


@pytest.fixture
def tantivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base with both of its indexes beside it."""
    monkeypatch.setattr(vector_index, "WORTH_SAVING", 1)
    made(tmp_path / "kb.db")
    return tmp_path / "kb.db"


def findings(kb: Path, level: str, *, code: int) -> list[Finding]:
    """The findings of one level, by the JSON form."""
    done = run("doctor", "--kb", kb, "--json")
    assert done.code == code, done.out
    return [item for item in done.json["findings"] if item["level"] == level]


def only(kb: Path, level: str, *, code: int) -> Finding:
    """The one finding that is not `ok`."""
    (item,) = findings(kb, level, code=code)
    assert not findings(kb, "problem" if level == "note" else "note", code=code)
    return item


def test_a_sound_base(kb: Path) -> None:
    done = run("--kb", kb, "doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert all(line.startswith("ok:      ") for line in lines)
    assert lines[0].endswith(f"the file is intact, its schema is {SCHEMA_VERSION}")
    assert "20 documents, 143 chunks, vectors of hash (dimension 64)" in lines[1]


def test_an_empty_base(tmp_path: Path) -> None:
    opened(tmp_path / "kb.db").close()
    assert not findings(tmp_path / "kb.db", "note", code=0)


def test_nothing_is_there(tmp_path: Path) -> None:
    done = run("--kb", "none.db", "doctor")
    assert done.code == 5
    assert done.err.startswith("lagotto: there is no base at none.db;")
    assert list(tmp_path.iterdir()) == []


def test_doctor_changes_nothing(tantivy: Path) -> None:
    before = {path: path.read_bytes() for path in tantivy.parent.rglob("*") if path.is_file()}
    run("--kb", tantivy, "doctor")
    after = {path: path.read_bytes() for path in tantivy.parent.rglob("*") if path.is_file()}
    assert after == before


def test_no_embedder_is_needed(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAGOTTO_EMBEDDER", "nonsense")
    assert run("--kb", kb, "doctor").code == 0


class TestFile:
    def test_a_page_of_garbage(self, kb: Path) -> None:
        whole = kb.read_bytes()
        for page in range(1, len(whole) // PAGE, 3):
            kb.write_bytes(whole[: page * PAGE] + b"\x5a" * PAGE + whole[(page + 1) * PAGE :])
            done = run("doctor", "--kb", kb, "--json")
            assert done.code in (0, 5)  # a page in the middle of a text can't be told from a text
            assert all(item["level"] != "problem" for item in done.json["findings"]) == (
                done.code == 0
            )

    def test_a_file_cut_off(self, kb: Path) -> None:
        kb.write_bytes(kb.read_bytes()[: kb.stat().st_size // 2])
        done = run("doctor", "--kb", kb)
        assert done.code == 5
        assert done.out.startswith("problem: ")
        assert ".recover" in done.out

    def test_another_file(self, tmp_path: Path) -> None:
        (tmp_path / "kb.db").write_text("not a base")
        assert "is not a Lagotto base" in only(tmp_path / "kb.db", "problem", code=5)["what"]

    def test_free_space(self, kb: Path) -> None:
        with opened(kb) as base:
            base.add(Document(id="large", text="Short.", summary="x" * 2_000_000))
            base.remove("large")
        (note,) = [item for item in findings(kb, "note", code=0) if "MB" in item["what"]]
        assert note["what"].endswith("MB of the file are unused")
        assert note["advice"] == f"release the space: sqlite3 {kb} VACUUM"
        run_sql(kb, "VACUUM")
        assert not [item for item in findings(kb, "note", code=0) if "free" in item["what"]]
        with opened(kb) as base:
            assert base.retrieve("unique3x")[0].document_id == "d003"


class TestRows:
    @pytest.mark.parametrize(
        ("damage", "what"),
        [
            (
                "DELETE FROM embedding WHERE chunk_key IN (1, 2, 10)",
                "3 chunks have no vector: default/d000, default/d001",
            ),
            (
                "INSERT INTO embedding (chunk_key, model_id, vector, created_at) "
                "SELECT chunk_key, 'other', vector, created_at FROM embedding",
                "there are vectors of other models than hash: other (143)",
            ),
            (
                "UPDATE embedding SET vector = substr(vector, 1, 8) WHERE chunk_key < 4",
                "3 vectors are damaged: default/d000",
            ),
            (
                "UPDATE document SET content_hash = 'x' WHERE id = 'd007'",
                "the chunks are of a former content: default/d007",
            ),
            *(
                (
                    f"UPDATE document SET {change} WHERE id = 'd007'",
                    "documents are not what their hashes say: default/d007",
                )
                for change in (
                    "text = replace(text, 'version1', 'version2')",
                    "title = 'other'",
                    f"structure = json_set(structure, '$.pages', json('[{A_PAGE}]'))",
                    "metadata = json_set(metadata, '$.version', 2)",
                    "source = 'elsewhere'",
                )
            ),
        ],
    )
    def test_damage(self, kb: Path, damage: str, what: str) -> None:
        run_sql(kb, damage)
        problem = only(kb, "problem", code=5)
        assert problem["what"] == what
        assert "no vector" not in what or "add them again" in problem["advice"]

    def test_many_are_not_all_named(self, kb: Path) -> None:
        run_sql(kb, "DELETE FROM embedding")
        what = only(kb, "problem", code=5)["what"]
        assert what.startswith("143 chunks have no vector: default/d000, ")
        assert what.endswith("default/d004, and 15 more")

    def test_the_advice_helps(self, kb: Path) -> None:
        run_sql(kb, "DELETE FROM embedding WHERE chunk_key = 1")
        with opened(kb) as base:
            base.remove("d000")
            base.add(document(0))
        assert not findings(kb, "problem", code=0)

    def test_vectors_without_a_chunk(self, kb: Path) -> None:
        columns = "(chunk_key, model_id, vector, created_at)"
        one = "SELECT 9999, model_id, vector, created_at FROM embedding LIMIT 1"
        run_sql(kb, f"INSERT INTO embedding {columns} {one}")
        problem = only(kb, "problem", code=5)
        assert problem["what"].endswith("that are not there: 1 of embedding")
        assert run("copy", kb, "copy.db").code == 0
        assert not findings(Path("copy.db"), "problem", code=0)

    @pytest.mark.parametrize("garbage", ["7f" * 64, "ff" * 64, "00" * 64, "3f" * 64])
    def test_garbage_in_vectors(self, kb: Path, garbage: str) -> None:
        garbled = f"CAST(substr(vector, 1, 64) || x'{garbage}' || substr(vector, 129) AS BLOB)"
        run_sql(kb, f"UPDATE embedding SET vector = {garbled} WHERE chunk_key IN (5, 140)")
        problem = only(kb, "problem", code=5)
        assert problem["what"] == "2 vectors are damaged: default/d000, default/d019"
        assert "add them again" in problem["advice"]
        shutil.rmtree(kb.with_name("kb.db.index"), ignore_errors=True)
        with opened(kb) as base:
            found = base.retrieve("the marsh", mode="semantic", top_k=200)
            assert len(found) == 141  # without the two
            assert "semantic: the vectors of 2 chunks are damaged" in found.degraded[0]
            base.remove("d000", "d019")
            base.add(document(0), document(19))
            found = base.retrieve("unique3x")
            assert (found[0].document_id, found.degraded) == ("d003", ())
        assert not findings(kb, "problem", code=0)

    def test_a_vector_with_a_flipped_sign(self, tantivy: Path) -> None:
        """Of length 1 all the same, but not what the index has."""
        (row,) = fetch(tantivy, "SELECT vector FROM embedding WHERE chunk_key = 5")
        vector = np.frombuffer(row[0], "<f4").copy()
        vector[np.argmax(np.abs(vector))] *= -1
        blob = vector.tobytes().hex()
        run_sql(tantivy, f"UPDATE embedding SET vector = x'{blob}' WHERE chunk_key = 5")
        what = only(tantivy, "problem", code=5)["what"]
        assert what.startswith("1 vectors in the database are not those of the vector index")

    def test_a_content_hash_of_the_callers_own(self, kb: Path) -> None:
        with opened(kb) as base:
            base.add(Document(id="own", text="An ETag is its hash.", content_hash="etag-17"))
        assert not findings(kb, "problem", code=0)

    @pytest.mark.parametrize(
        ("damage", "level", "what"),
        [
            (
                "UPDATE chunk_text SET text = replace(text, 'oak', 'elm')",
                "problem",
                "the texts of chunks are not those of the document: default/long",
            ),
            (  # of short documents none are stored, and none are missed
                "DELETE FROM chunk_text WHERE chunk_key IN (SELECT max(key) FROM chunk)",
                "note",
                "1 chunks have no stored text, which slows reading them",
            ),
        ],
    )
    def test_texts_of_chunks(self, kb: Path, damage: str, level: str, what: str) -> None:
        with opened(kb) as base:
            base.add(Document(id="long", text="A dog at an oak. " * 200))
            base.retrieve("dog")
        with opened(kb):  # with indexes that have caught up
            pass
        run_sql(kb, damage)
        assert only(kb, level, code=5 if level == "problem" else 0)["what"] == what

    def test_expired_chunks_in_the_cache(self, kb: Path) -> None:
        run_sql(
            kb,
            "INSERT INTO chunk_cache SELECT key, '', '', '', x'', x'', '', '', "
            "CASE WHEN key < 3 THEN '2001-01-01' WHEN key < 9 THEN '2999-01-01' END FROM document",
        )
        assert only(kb, "note", code=0)["what"] == "2 sets of cached chunks have expired"

    def test_many_removals(self, kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checks, "MANY_REMOVALS", 100)
        with opened(kb) as base:
            base.remove(*(item.id for item in documents(20)[:15]))
            base.retrieve("unique17x")
        (note,) = [item for item in findings(kb, "note", code=0) if "change log" in item["what"]]
        assert note["what"].startswith("107 removed chunks are still in the change log")


class TestIndexes:
    def test_indexes_are_up_to_date(self, tantivy: Path) -> None:
        what = [item["what"] for item in findings(tantivy, "ok", code=0)]
        assert what[-2].startswith("the text index is up to date (0.")
        assert what[-1].startswith("the vector index is up to date (0.")

    def test_no_indexes(self, tantivy: Path) -> None:
        shutil.rmtree(tantivy.with_name("kb.db.index"))
        notes = [item["what"] for item in findings(tantivy, "note", code=0)]
        assert notes == ["there is no text index", "there is no vector index"]
        with opened(tantivy) as base:
            base.retrieve("unique3x")
        assert not findings(tantivy, "note", code=0)

    def test_a_small_base_needs_no_vector_index(self, kb: Path) -> None:
        shutil.rmtree(kb.with_name("kb.db.index"), ignore_errors=True)
        notes = findings(kb, "note", code=0)
        assert not [item for item in notes if "vector" in item["what"]]

    def test_indexes_that_are_behind(self, tantivy: Path) -> None:
        with opened(tantivy) as base:
            base.add(document(20))
        notes = [item["what"] for item in findings(tantivy, "note", code=0)]
        assert notes == [
            "the text index is 7 changes behind (143 of 150)",
            "the vector index is 7 changes behind (143 of 150)",
        ]

    @pytest.mark.parametrize(
        ("kind", "name"),
        [("text", "*.store"), ("vectors", "*/keys.i64"), ("vectors", "*/rows.f32")],
    )
    def test_a_damaged_index(self, tantivy: Path, kind: str, name: str) -> None:
        (file,) = tantivy.with_name("kb.db.index").glob(f"{kind}-*/{name}")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
        problem = only(tantivy, "problem", code=5)
        assert problem["what"].startswith(f"the {kind.removesuffix('s')} index is damaged: ")
        with opened(tantivy) as base:
            assert base.retrieve("unique3x")[0].document_id == "d003"
        assert not findings(tantivy, "problem", code=0)

    def test_mostly_dead(self, tantivy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patched, opened(tantivy) as base:
            patched.setattr(TantivyIndex, "compact", lambda *_: None)
            base.remove(*(item.id for item in documents(20)[:8]))
            base.retrieve("unique17x")
            base.close()
        note = only(tantivy, "note", code=0)
        assert note["what"] == "57 of the 143 chunks in the text index are removed"
        with opened(tantivy) as base:
            base.retrieve("unique17x")
        assert not findings(tantivy, "note", code=0)

    def test_folders_of_former_rules(self, tantivy: Path) -> None:
        folder = tantivy.with_name("kb.db.index")
        (folder / "text-0123abcd").mkdir()
        tantivy.with_name("kb.db.index.0123abcd.old").mkdir()
        note = only(tantivy, "note", code=0)
        assert note["what"].startswith("2 index folders are not used any more")
        assert "text-0123abcd" in note["advice"]

    def test_chunks_that_fts5_lacks(self, tmp_path: Path) -> None:
        made(tmp_path / "kb.db", text_index="fts5")
        run_sql(
            tmp_path / "kb.db",
            "DELETE FROM chunk_terms WHERE rowid < 4",
            "INSERT INTO chunk_terms(rowid, terms) VALUES (9999, 'x')",
        )
        problem = only(tmp_path / "kb.db", "problem", code=5)
        assert problem["what"] == "the text index lacks 3 chunks, and has 1 that were removed"
        assert run("copy", "kb.db", "copy.db").code == 0
        assert not findings(Path("copy.db"), "problem", code=0)


def test_looking_needs_no_right_embedder(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
        base.add(Document(id="a", text="A text."))
    for arguments in (["list"], ["show", "a"], ["info"], ["remove", "a", "--yes"]):
        assert run("--kb", "kb.db", *arguments).code == 0
    assert run("--kb", "kb.db", "search", "text").code == 4


def test_advice_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "a  b; touch owned"
    folder.mkdir()
    moved = folder / "kb.db"
    made(moved)
    unused = next(folder.glob("*.index")) / "text-00000000"
    unused.mkdir()
    (unused / "file").write_text("left behind")
    advice = [line for line in run("--kb", moved, "doctor").out.splitlines() if "rm -r" in line]
    shell = advice[0].partition("delete them: ")[2]
    subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True)
    assert not unused.exists()
    assert moved.exists()
    assert not (tmp_path / "owned").exists()

    moved.write_bytes(moved.read_bytes()[:4096] + b"garbage" * 2000)
    (told,) = re.findall(r"`(sqlite3 .*)`", run("--kb", moved, "doctor").out)
    assert shlex.split(told) == ["sqlite3", str(moved), ".recover", "|", "sqlite3", "recovered.db"]


def test_other_advice_is_quoted_too(tmp_path: Path) -> None:
    done = run("--kb", "a; b.db", "info")
    (told,) = re.findall(r"`(lagotto .*) add PATH`", done.err)
    assert shlex.split(told) == ["lagotto", "--kb", "a; b.db"]


EMPTY = StoreInfo(
    location="kb.db",
    documents=0,
    chunks=0,
    collections={},
    languages=(),
    model_id=None,
    chunker_id=None,
    bytes_on_disk=0,
)


def test_info(base: Path) -> None:
    found = StoreInfo.model_validate(run("--kb", base, "info", "--json").json)
    assert (found.documents, found.collections) == (4, {"default": 4})
    lines = run("--kb", base, "info").out.splitlines()
    assert "documents:   4" in lines
    assert "collections: default (4)" in lines
    assert "embedder:    all-MiniLM-L6-v2 (minilm, dimension 384)" in lines
    assert "chunker:     prose:256/32" in lines
    assert "text index:  tantivy" in lines


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (0, ""),
        (171, ""),  # a search reads them from the base
        (12_000, "12,000 changes (text); the next search indexes them first"),
    ],
)
def test_only_an_index_that_a_search_waits_for_is_mentioned(behind: int, said: str) -> None:
    state = IndexState(role="text", kind="tantivy", applied_seq=0, changes=behind)
    assert _not_indexed(EMPTY.model_copy(update={"indexes": (state,)})) == said


def test_languages_that_the_embedder_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The dog looks for truffles in the woods near the river. " * 3)
    (tmp_path / "b.md").write_text("Собака ищет трюфели в лесу недалеко от реки каждый день. " * 3)
    added = run("--kb", "mine.db", "add", tmp_path)
    assert "1 new document in ru (50%): all-MiniLM-L6-v2 was trained on en" in added.err
    done = run("--kb", "mine.db", "info")
    assert "1 document in ru (50%): all-MiniLM-L6-v2 was trained on en" in done.err
    assert done.err.count("`lagotto rebuild --embedder multilingual`") == 1
    assert run("--kb", "mine.db", "info", "--json").json["by_language"] == {"en": 1, "ru": 1}


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


def _chunks_of_next(base: Path) -> int:
    with closing(sqlite3.connect(base)) as file:
        (count,) = file.execute("SELECT count(*) FROM chunk WHERE generation = 1").fetchone()
    return int(count)


LONG = "Oak and hazel and lime. " * 40
"""Long enough that a rebuild stores documents well before its end."""


@pytest.mark.usefixtures("interruptible")
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


def test_no_embedder_is_needed_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_documents_go_from_one_base_to_another(base: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "all.jsonl", tmp_path / "other.db"
    done = run("--kb", base, "export", out)
    assert (done.code, done.out) == (0, f"4 documents written to {out}\n")
    done = run("--kb", other, "import", out)
    assert done.code == 0, done.err
    assert done.out.startswith("4 added, 0 updated, 0 unchanged")
    listed = [run("--kb", kb, "list", "--json").json for kb in (base, other)]
    assert listed[0] == listed[1]


def test_beir_and_a_broken_line(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    german = '{"language": "de"}'
    done = run("--kb", base, "export", folder, "--format", "beir", "--filters", german, "--json")
    assert done.json == {"exported": 1, "path": str(folder)}
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    done = run("--kb", tmp_path / "b.db", "import", folder, "--collection", "wild", "--json")
    assert (done.code, done.json["added"]) == (3, 1)
    assert f"failed: {folder / 'corpus.jsonl'}:2: not an exported document" in done.err


def test_a_file_of_another_kind_does_not_fill_the_screen(tmp_path: Path) -> None:
    file, base = tmp_path / "notes.md", tmp_path / "b.db"
    file.write_text("no JSON\n" * 50)
    done = run("--kb", base, "import", file)
    assert (done.code, base.exists()) == (3, False)
    assert done.err.count("failed: ") == 21
    assert done.err.endswith("failed: 30 more; --verbose names all of them\n")
    assert "more; --verbose" not in run("--kb", base, "import", file, "--verbose").err
    assert len(run("--kb", base, "import", file, "--json").json["failures"]) == 50
