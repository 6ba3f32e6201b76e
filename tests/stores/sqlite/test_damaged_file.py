"""A damaged file is an error of ours or the right answer, never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import (
    LagottoError,
    StoreDamagedError,
)
from tests.stores.sqlite.bases import answers, documents, made, opened

pytestmark = pytest.mark.slow

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


class TestDamagedFile:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_a_page_of_garbage(self, path: Path, text_index: str) -> None:
        """Every page in turn: an error of ours, or the right answers."""
        made(path, text_index=text_index, count=6)
        long = Document(id="long", text="Word by word. " * 1_500, metadata={"a": "b" * 9_000})
        with opened(path) as base:
            base.add(long)
            base.retrieve("word")
        with opened(path) as base:  # with indexes that have caught up
            right = answers(base)
            stored = [base.get(item.id) for item in (*documents(6), long)]  # with their languages
        given = [item.model_dump(exclude={"language"}) for item in (*documents(6), long)]
        assert [item and item.model_dump(exclude={"language"}) for item in stored] == given
        whole = path.read_bytes()
        garbage = bytes((7 * place + 3) % 251 for place in range(PAGE))
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            path.write_bytes(whole[: page * PAGE] + garbage + whole[(page + 1) * PAGE :])
            try:
                with opened(path) as base:
                    assert answers(base) == right
                    assert [base.get(item.id) for item in (*documents(6), long)] == stored
            except StoreDamagedError:
                errors += 1
        assert errors > 5

    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_bytes_in_the_middle(self, path: Path, text_index: str) -> None:
        """SQLite has no checksums, so some go unseen; what is noticed is an error of ours."""
        made(path, text_index=text_index, count=6)
        whole = path.read_bytes()
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            end = (page + 1) * PAGE - 50
            path.write_bytes(whole[: end - 300] + b"\x02" * 300 + whole[end:])
            try:
                with opened(path) as base:
                    answers(base)
                    for item in documents(6):
                        base.get(item.id)
                        base.chunks(item.id)
                    base.documents(filters={"version": 1})
                    base.add(*documents(7))
            except LagottoError:
                errors += 1
        assert errors > 2

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_a_file_cut_off(self, path: Path, share: float) -> None:
        made(path, count=20)
        whole = path.read_bytes()
        shutil.rmtree(path.with_name("kb.db.index"))
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(StoreDamagedError, match="damaged"), opened(path) as base:
            answers(base)

    def test_no_advice_to_delete(self, path: Path) -> None:
        """The file may be the only copy of the documents."""
        made(path, count=20)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(StoreDamagedError, match=r"backup.*\.recover") as caught, opened(path):
            pass
        assert "delete" not in str(caught.value).replace(str(path), "")

    def test_an_emptied_file_does_not_become_a_new_base(self, path: Path) -> None:
        right = made(path)
        whole = path.read_bytes()
        path.write_bytes(b"")
        with pytest.raises(StoreDamagedError, match=r"is empty, but .* has indexes"), opened(path):
            pass
        path.write_bytes(whole)
        with opened(path) as base:
            assert answers(base) == right

    def test_an_empty_file_without_indexes_becomes_one(self, path: Path) -> None:
        path.write_bytes(b"")
        assert made(path)
