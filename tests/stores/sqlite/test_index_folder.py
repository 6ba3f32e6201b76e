"""Whose the folder beside the file is: nothing that Lagotto did not write is ever deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lagotto.errors import StoreError
from lagotto.indexes.folder import MARKER, IndexFolder
from tests.stores.sqlite.bases import answers, document, documents, made, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


def owner(folder: Path) -> str:
    return str(json.loads((folder / MARKER).read_bytes())["base_id"])


def indexes(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in folder.iterdir() if path.is_dir())


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_a_folder_of_other_files_is_refused_and_left_alone(path: Path, text_index: str) -> None:
    thesis = path.with_name("kb.db.index") / "thesis" / "c1.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("the only copy")
    with pytest.raises(StoreError, match=r"kb\.db\.index .* \(thesis\); move the folder away"):
        made(path, text_index=text_index)
    assert thesis.read_text() == "the only copy"
    assert list(thesis.parent.parent.iterdir()) == [thesis.parent]
    assert not path.exists()


def test_other_files_beside_indexes_of_an_earlier_version(path: Path) -> None:
    made(path)
    folder = path.with_name("kb.db.index")
    (folder / MARKER).unlink()
    (folder / "notes.txt").write_text("the only copy")
    with pytest.raises(StoreError, match=r"\(notes\.txt\)"), opened(path):
        pass
    assert (folder / "notes.txt").read_text() == "the only copy"


def test_other_files_in_a_marked_folder_stay(path: Path) -> None:
    made(path)
    folder = path.with_name("kb.db.index")
    (folder / "notes.txt").write_text("the only copy")
    with opened(path) as base:
        base.remove(*(item.id for item in documents(15)))  # so many that the text is rebuilt
        base.add(document(50))
        base.retrieve("unique50x")
    assert (folder / "notes.txt").read_text() == "the only copy"


def test_indexes_of_an_earlier_version_are_adopted(path: Path) -> None:
    right = made(path)
    folder = path.with_name("kb.db.index")
    (folder / MARKER).unlink()
    before = {item.name: item.stat().st_ino for item in folder.iterdir() if item.is_dir()}
    with opened(path) as base:
        assert answers(base) == right
        base.add(document(30))
        base.retrieve("unique30x")
    after = {item.name: item.stat().st_ino for item in folder.iterdir() if item.is_dir()}
    assert before == {name: after[name] for name in before}
    assert (folder / MARKER).exists()


def test_an_empty_folder_is_taken(path: Path) -> None:
    path.with_name("kb.db.index").mkdir()
    made(path)
    assert indexes(path.with_name("kb.db.index")) == ["text"]


def test_a_lock_that_is_held_is_not_waited_for(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
    with (
        folder.try_lock(".following-text") as first,
        folder.try_lock(".following-text") as second,
        folder.try_lock(".other") as other,
    ):
        assert (first, second, other) == (True, False, True)
    with folder.try_lock(".following-text") as again:
        assert again


def test_locks_of_followers_are_ours(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
    for role in ("text", "vectors"):
        with folder.try_lock(f".following-{role}"):
            pass
    (folder.path / MARKER).write_text("damaged")
    folder.claim()
    assert owner(folder.path) == "a" * 32


def test_a_damaged_marker_is_written_again(path: Path) -> None:
    right = made(path)
    (path.with_name("kb.db.index") / MARKER).write_bytes(b"{")
    with opened(path) as base:
        assert answers(base) == right
        base.add(document(30))
        base.retrieve("unique30x")
    assert owner(path.with_name("kb.db.index"))


def test_a_new_base_leaves_the_indexes_of_a_former_one(path: Path) -> None:
    made(path)
    former = owner(path.with_name("kb.db.index"))
    files = sorted(path.with_name("kb.db.index").rglob("*"))
    path.unlink()
    made(path)
    assert sorted(path.with_name("kb.db.index").rglob("*")) == files
    assert owner(path.with_name("kb.db.index")) == former
    (folder,) = path.parent.glob("kb.db.index-*")
    assert folder.name == f"kb.db.index-{owner(folder)[:8]}"
    assert owner(folder) != former
    assert indexes(folder) == ["text"]


def test_each_base_finds_its_own_indexes_again(path: Path) -> None:
    right = made(path, count=5)
    other = made(path.with_name("other.db"), count=20)
    shutil.copy(path, path.with_name("first"))
    shutil.copy(path.with_name("other.db"), path)
    for _ in range(2):
        with opened(path) as base:
            assert answers(base) == other
    shutil.copy(path.with_name("first"), path)
    with opened(path) as base:
        assert answers(base) == right
    assert len(list(path.parent.glob("kb.db.index*"))) == 2


class TestDrop:
    def test_only_in_the_folder(self, tmp_path: Path) -> None:
        folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        outside = tmp_path / "thesis"
        outside.mkdir()
        with pytest.raises(StoreError, match="not an index in"):
            folder.drop(outside)
        assert outside.is_dir()

    def test_not_with_the_marker_of_another_base(self, tmp_path: Path) -> None:
        theirs = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        with theirs.lock(timeout=0):
            (theirs.path / "text-01234567").mkdir()
        ours = IndexFolder(tmp_path / "kb.db.index", "b" * 32)
        with pytest.raises(StoreError, match="another base"):
            ours.drop(theirs.path / "text-01234567")
        assert (theirs.path / "text-01234567").is_dir()

    def test_not_without_a_marker_beside_other_files(self, tmp_path: Path) -> None:
        folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        (folder.path / "text-01234567").mkdir(parents=True)
        (folder.path / "thesis").mkdir()
        with pytest.raises(StoreError, match="did not write"):
            folder.drop(folder.path / "text-01234567")
        assert (folder.path / "text-01234567").is_dir()
