from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.indexes.tantivy.index import TantivyIndex
from lagotto.indexes.vectors import index as vector_index
from lagotto.stores.sql import SCHEMA_VERSION, checks
from lagotto.testing.hash_embedder import HashEmbedder
from tests.cli.running import run
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
    def test_chunks_without_vectors(self, kb: Path) -> None:
        run_sql(kb, "DELETE FROM embedding WHERE chunk_key IN (1, 2, 10)")
        problem = only(kb, "problem", code=5)
        assert problem["what"] == "3 chunks have no vector: default/d000, default/d001"
        assert "add them again" in problem["advice"]

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

    def test_vectors_of_several_models(self, kb: Path) -> None:
        columns = "(chunk_key, model_id, vector, created_at)"
        others = "SELECT chunk_key, 'other', vector, created_at FROM embedding"
        run_sql(kb, f"INSERT INTO embedding {columns} {others}")
        what = only(kb, "problem", code=5)["what"]
        assert what == "there are vectors of other models than hash: other (143)"

    def test_vectors_cut_off(self, kb: Path) -> None:
        run_sql(kb, "UPDATE embedding SET vector = substr(vector, 1, 8) WHERE chunk_key < 4")
        what = only(kb, "problem", code=5)["what"]
        assert what == "3 vectors are damaged: default/d000"

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

    def test_chunks_of_a_former_content(self, kb: Path) -> None:
        run_sql(kb, "UPDATE document SET content_hash = 'x' WHERE id = 'd007'")
        what = only(kb, "problem", code=5)["what"]
        assert what == "the chunks are of a former content: default/d007"

    @pytest.mark.parametrize(
        "damage",
        [
            "text = replace(text, 'version1', 'version2')",
            "title = 'other'",
            f"structure = json_set(structure, '$.pages', json('[{A_PAGE}]'))",
            "metadata = json_set(metadata, '$.version', 2)",
            "source = 'elsewhere'",
        ],
    )
    def test_a_document_that_is_not_what_its_hashes_say(self, kb: Path, damage: str) -> None:
        run_sql(kb, f"UPDATE document SET {damage} WHERE id = 'd007'")
        what = only(kb, "problem", code=5)["what"]
        assert what == "documents are not what their hashes say: default/d007"

    def test_a_content_hash_of_the_callers_own(self, kb: Path) -> None:
        with opened(kb) as base:
            base.add(Document(id="own", text="An ETag is its hash.", content_hash="etag-17"))
        assert not findings(kb, "problem", code=0)

    def test_a_text_that_is_not_the_documents(self, kb: Path) -> None:
        with opened(kb) as base:
            base.add(Document(id="long", text="A dog at an oak. " * 200))
            base.retrieve("dog")
        with opened(kb):  # with indexes that have caught up
            pass
        run_sql(kb, "UPDATE chunk_text SET text = replace(text, 'oak', 'elm')")
        what = only(kb, "problem", code=5)["what"]
        assert what == "the texts of chunks are not those of the document: default/long"

    def test_texts_that_are_lost(self, kb: Path) -> None:
        """Of short documents none are stored, and none are missed."""
        with opened(kb) as base:
            base.add(Document(id="long", text="A dog at an oak. " * 200))
            base.retrieve("dog")
        with opened(kb):  # with indexes that have caught up
            pass
        run_sql(kb, "DELETE FROM chunk_text WHERE chunk_key IN (SELECT max(key) FROM chunk)")
        what = only(kb, "note", code=0)["what"]
        assert what == "1 chunks have no stored text, which slows reading them"

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
