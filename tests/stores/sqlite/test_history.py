"""An index belongs to one history of a base: copies that went different ways don't share it.

What killed processes and other bases left in the folder does no harm.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.indexes.vectors import index as vector_index
from lagotto.stores.sql import write
from tests.child_process import child, said
from tests.stores.sqlite.bases import (
    answers,
    document,
    documents,
    fetch,
    findings,
    made,
    opened,
)

pytestmark = pytest.mark.slow

TEXT_INDEXES = pytest.mark.parametrize("text_index", ["tantivy", "fts5"])


@pytest.fixture(autouse=True)
def _saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bases save their vectors too."""
    monkeypatch.setattr(vector_index, "WORTH_SAVING", 1)


def diverged(path: Path, text_index: str) -> tuple[Path, Path]:
    """Two copies of a base, and in each as many changes of its own."""
    made(path, text_index=text_index, count=10)
    other = path.with_name("other.db")
    shutil.copy(path, other)
    for copy, numbers in ((path, range(20, 25)), (other, range(30, 35))):
        with opened(copy) as base:
            base.add(*map(document, numbers))
            check(base, numbers)
    return path, other


def check(base: KnowledgeBase, numbers: range) -> None:
    """Each document is found by its own word, and no other is."""
    for mode in ("keyword", "hybrid"):
        for number in numbers:
            (hit, *_) = base.retrieve(f"Only unique{number}x stands here", mode=mode)
            assert hit.document_id == f"d{number:03}", mode
    stored = {item.id for item in base.documents()}
    for hits in (
        base.retrieve("water", mode="semantic", top_k=500),
        base.retrieve("only", mode="keyword", top_k=500),
    ):
        assert {hit.document_id for hit in hits} == stored


@TEXT_INDEXES
def test_a_copy_that_went_another_way(path: Path, text_index: str) -> None:
    path, other = diverged(path, text_index)
    shutil.copy(other, path.with_name("fresh.db"))
    with opened(path.with_name("fresh.db")) as base:
        expected = answers(base)
    shutil.copy(other, path)
    for _ in range(2):
        with opened(path) as base:
            assert answers(base) == expected
            check(base, range(30, 35))


@TEXT_INDEXES
def test_two_copies_swapped(path: Path, text_index: str) -> None:
    path, other = diverged(path, text_index)
    aside = path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
    for copy, numbers in ((path, range(30, 35)), (other, range(20, 25))):
        with opened(copy) as base:
            check(base, numbers)


def test_a_copy_with_more_changes_than_the_index(path: Path) -> None:
    path, other = diverged(path, "tantivy")
    with opened(other) as base:
        base.add(*map(document, range(35, 38)))
    shutil.copy(other, path)
    with opened(path) as base:
        check(base, range(30, 38))


def test_a_base_put_back_while_it_is_open_elsewhere(path: Path) -> None:
    """The file is replaced: who has the former one open goes on with it, both stay right."""
    path, other = diverged(path, "tantivy")
    with opened(path) as former:
        check(former, range(20, 25))
        shutil.copy(other, path.with_name("new"))
        path.with_name("new").rename(path)
        with opened(path) as base:
            check(base, range(30, 35))


def test_doctor_says_so(path: Path) -> None:
    path, other = diverged(path, "tantivy")
    shutil.copy(other, path)
    assert _of_other_histories(path) == ["text", "vector"]
    with opened(path) as base:
        check(base, range(30, 35))
    assert not _of_other_histories(path)


def _of_other_histories(path: Path) -> list[str]:
    return re.findall(r"the (\w+) index belongs to another history", findings(path))


def test_the_history_is_pruned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "HISTORY_KEPT", 3)
    with opened(path) as base:
        for number in range(8):
            base.add(document(number))
            if number in (0, 7):
                assert base.retrieve(f"unique{number}x", mode="keyword")
    assert fetch(path, "SELECT count(*) FROM history") == [(3,)]


@TEXT_INDEXES
def test_removals_are_pruned_and_an_index_that_needs_them_is_rebuilt(
    path: Path, text_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "CHANGES_KEPT", 4)
    made(path, text_index=text_index, count=10)
    index = path.with_name("kb.db.index")
    shutil.copytree(index, path.with_name("lagging"))
    with opened(path) as base:
        for number in range(5):
            base.remove(f"d{number:03}")
        for number in range(20, 25):
            base.add(document(number))
        check(base, range(20, 25))
    assert fetch(path, "SELECT count(*) FROM removal") == [(0,)]
    ((kept, last),) = fetch(path, "SELECT min(change), max(change) FROM history")
    assert last - kept < 4
    shutil.rmtree(index)
    path.with_name("lagging").rename(index)
    with opened(path) as base:
        check(base, range(20, 25))
        check(base, range(5, 10))


def test_a_wal_of_a_killed_process(path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.stores.sqlite.bases import answers, documents, opened\n"
        "with opened(Path(sys.argv[1])) as base:\n"
        "    base.add(*documents(20))\n"
        "    print('stored', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with child(program, path) as process:
        assert said(process) == "stored"
    assert path.with_name("kb.db-wal").stat().st_size > 0
    expected = made(path.with_name("other.db"))
    with opened(path) as base:
        assert answers(base) == expected


def test_indexes_of_a_base_that_had_the_name(path: Path) -> None:
    made(path, count=20)
    path.unlink()
    with opened(path) as base:
        base.add(*reversed(documents(20)))
        assert answers(base) == made(path.with_name("other.db"))


def test_indexes_newer_than_a_base_put_back(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made(path, count=10)
    shutil.copy(path, path.with_name("backup"))
    with opened(path) as base:
        base.add(*documents(20)[10:])
        assert base.retrieve("unique15x")[0].document_id == "d015"
    shutil.copy(path.with_name("backup"), path)
    with opened(path) as base:
        found = base.retrieve("unique15x", mode="keyword")
        assert "d015" not in {hit.document_id for hit in found}
        assert "the text index belongs to another history of the base" in caplog.text
        base.add(*reversed(documents(20)[10:]))
        base.retrieve("unique15x")
    with opened(path) as base:  # with indexes that have caught up
        assert answers(base) == made(path.with_name("other.db"))
