"""Whose the folder beside the file is: nothing that Lagotto did not write is ever deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lagotto._internal.locations import INDEX_MARKER
from lagotto.base.blocking import KnowledgeBase
from lagotto.errors import LagottoError, StoreDamagedError, StoreError
from lagotto.indexes.folder import LOCK, IndexFolder
from tests.stores.sqlite.bases import answers, document, documents, findings, made, opened


def owner(folder: Path) -> str:
    return str(json.loads((folder / INDEX_MARKER).read_bytes())["base_id"])


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
    (folder / INDEX_MARKER).unlink()
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
    (folder / INDEX_MARKER).unlink()
    before = {item.name: item.stat().st_ino for item in folder.iterdir() if item.is_dir()}
    with opened(path) as base:
        assert answers(base) == right
        base.add(document(30))
        base.retrieve("unique30x")
    after = {item.name: item.stat().st_ino for item in folder.iterdir() if item.is_dir()}
    assert before == {name: after[name] for name in before}
    assert (folder / INDEX_MARKER).exists()


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
    (folder.path / INDEX_MARKER).write_text("damaged")
    folder.claim()
    assert owner(folder.path) == "a" * 32


def test_a_damaged_marker_is_written_again(path: Path) -> None:
    right = made(path)
    (path.with_name("kb.db.index") / INDEX_MARKER).write_bytes(b"{")
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
    def refused(self, folder: IndexFolder, index: Path, match: str) -> None:
        index.mkdir(parents=True, exist_ok=True)
        with pytest.raises(StoreError, match=match):
            folder.delete(index)
        assert index.is_dir()

    def test_only_in_the_folder(self, tmp_path: Path) -> None:
        folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        self.refused(folder, tmp_path / "thesis", "not an index in")

    def test_not_with_the_marker_of_another_base(self, tmp_path: Path) -> None:
        theirs = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        with theirs.lock(timeout=0):
            pass
        ours = IndexFolder(tmp_path / "kb.db.index", "b" * 32)
        self.refused(ours, theirs.path / "text-01234567", "another base")

    def test_not_without_a_marker_beside_other_files(self, tmp_path: Path) -> None:
        folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
        (folder.path / "thesis").mkdir(parents=True)
        self.refused(folder, folder.path / "text-01234567", "did not write")


def use(path: Path) -> None:
    """Search, add so much that indexes are compacted, remove, rebuild, and look for damage."""
    acts: tuple[Callable[[KnowledgeBase], object], ...] = (
        lambda base: base.retrieve("unique1x"),
        lambda base: base.add(*documents(12)),
        lambda base: base.retrieve("unique1x"),
        lambda base: base.remove(*(item.id for item in documents(10))),
        lambda base: base.retrieve("unique1x"),
        lambda base: base.rebuild(),
    )
    with opened(path) as base:
        for act in acts:
            try:
                act(base)
            except LagottoError as exc:
                assert "link" in str(exc)  # noqa: PT017


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files and folders below a folder, with what is in them."""
    return {
        str(item.relative_to(folder)): item.read_bytes() if item.is_file() else None
        for item in sorted(folder.rglob("*"))
    }


def part_of_index(folder: Path, kind: str) -> Path:
    """The first folder or file in the index folder whose name begins with `kind`."""
    return min(item for item in folder.glob("*") if item.name.startswith(kind))


LINKS: dict[str, Callable[[Path], Path]] = {
    "vectors": lambda folder: part_of_index(folder, "vectors"),
    "a generation": lambda folder: part_of_index(folder, "vectors") / "00000001",
    "a part": lambda folder: part_of_index(folder, "vectors") / "00000007.part",
    "the rows": lambda folder: part_of_index(folder, "vectors") / "00000001" / "rows.f32",
    "text": lambda folder: part_of_index(folder, "text"),
    "the meta file": lambda folder: part_of_index(folder, "text") / "meta.json",
    "the stamp": lambda folder: part_of_index(folder, "text") / "stamp.json.new",
    "an old index": lambda folder: folder / "text-01234567",
    "the lock": lambda folder: folder / ".lock",
    "a rebuild": lambda folder: folder / "rebuild",
    "the next generation": lambda folder: folder / "rebuild" / "next",
    "the next base": lambda folder: folder / "rebuild" / "next" / "base.db",
}


@pytest.mark.parametrize(
    ("where", "to"),
    [
        *((where, "folder") for where in LINKS),
        ("the rows", "file"),
        ("the stamp", "file"),
        ("the lock", "file"),
        ("the lock", "nothing"),
        ("the next base", "nothing"),
    ],
)
def test_a_link_in_the_folder_is_not_followed(
    path: Path, where: str, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that deletes or writes in the folder runs; a stranger's files stay."""
    monkeypatch.setattr("lagotto.indexes.vectors.index.WORTH_SAVING", 1)
    made(path, count=4)
    folder = path.with_name("kb.db.index")
    victim = path.with_name("victim")
    for name in ("20200101.part/video.mp4", "00000001/rows.f32", "next/base.db", "meta.json"):
        (victim / name).parent.mkdir(parents=True, exist_ok=True)
        (victim / name).write_text("the only copy")
    before = contents(victim)
    link = LINKS[where](folder)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to({"folder": victim, "file": victim / "meta.json"}.get(to, victim / "none"))
    use(path)
    assert contents(victim) == before
    assert link.is_symlink()
    with opened(path) as base, pytest.raises(StoreError, match="is a link, which Lagotto did not"):
        base.rebuild()
    assert "is a link" in findings(path)


def test_the_folder_itself_may_be_a_link(path: Path) -> None:
    right = made(path)
    folder = path.with_name("kb.db.index")
    elsewhere = folder.rename(path.with_name("other disk"))
    folder.symlink_to(elsewhere)
    with opened(path) as base:
        assert answers(base) == right
        base.add(document(50))
        assert base.retrieve("unique50x")
    assert folder.is_symlink()


def test_a_damaged_lock_is_named(tmp_path: Path) -> None:
    folder = IndexFolder(tmp_path / "kb.db.index", "a" * 32)
    with folder.lock(timeout=1):
        pass
    (folder.path / LOCK).write_bytes(b"no database " * 100)
    damaged = pytest.raises(StoreDamagedError, match=r"file is not a database\); delete this file")
    with damaged, folder.lock(timeout=1):
        pytest.fail("it was locked")
