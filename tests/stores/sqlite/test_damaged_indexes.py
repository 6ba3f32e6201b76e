"""Indexes beside the file may be damaged or deleted: they are made again, and answer as before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lagotto.indexes.vectors import index as vector_index
from tests.stores.sqlite.bases import Answers, answers, document, made, opened

pytestmark = pytest.mark.slow

Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


DAMAGES: dict[str, Damage] = {
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "a flipped byte": flip,
    "deleted": Path.unlink,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Answers]]:
    """A base with saved indexes of both kinds."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_index, "WORTH_SAVING", 1)
        made(folder / "kb.db")
    with opened(folder / "kb.db") as base:
        yield folder, answers(base)


def index_files(folder: Path) -> list[Path]:
    files = sorted(path for path in (folder / "kb.db.index").glob("*-*/**/[!.]*") if path.is_file())
    kinds = {path.relative_to(folder).parts[1].split("-")[0] for path in files}
    assert kinds == {"text", "vectors"}
    return files


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_each_file_damaged_while_closed(
    tmp_path: Path, whole: tuple[Path, Answers], damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    source, right = whole
    for number, original in enumerate(index_files(source)):
        caplog.clear()
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        damage(folder / original.relative_to(source))
        with opened(folder / "kb.db") as base:
            assert answers(base) == right, original.name
        assert "rebuilt from the database" in caplog.text, original.name
        caplog.clear()
        with opened(folder / "kb.db") as base:
            assert answers(base) == right
        assert caplog.text == ""


def test_rows_damaged_while_open(tmp_path: Path, whole: tuple[Path, Answers]) -> None:
    """512 bytes of garbage, anywhere in the rows: never a wrong answer."""
    source, right = whole
    (rows,) = (path for path in index_files(source) if path.name == "rows.f32")
    size = rows.stat().st_size
    for number, offset in enumerate(range(0, size - 512, size // 9)):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        with opened(folder / "kb.db") as base:
            base.info()
            with (folder / rows.relative_to(source)).open("r+b") as file:
                file.seek(offset)
                file.write(b"\x7e" * 512)
            assert answers(base) == right


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_the_folder_deleted_while_closed(tmp_path: Path, text_index: str) -> None:
    right = made(tmp_path / "kb.db", text_index=text_index)
    shutil.rmtree(tmp_path / "kb.db.index", ignore_errors=True)
    with opened(tmp_path / "kb.db") as base:
        assert answers(base) == right


def test_each_file_deleted_while_open(
    tmp_path: Path, whole: tuple[Path, Answers], caplog: pytest.LogCaptureFixture
) -> None:
    source, right = whole
    for number, original in enumerate(index_files(source)):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        with opened(folder / "kb.db") as base:
            assert answers(base) == right
            (folder / original.relative_to(source)).unlink()
            assert answers(base) == right
            base.add(document(100))
            assert base.retrieve("unique100x", mode="keyword")[0].document_id == "d100"
            base.remove("d100")
        with opened(folder / "kb.db") as base:
            assert _rounded(answers(base)) == _rounded(right)


def test_the_folder_deleted_while_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    right = made(tmp_path / "kb.db")
    with opened(tmp_path / "kb.db") as base:
        assert answers(base) == right
        shutil.rmtree(tmp_path / "kb.db.index")
        assert answers(base) == right
        base.add(document(100))
        assert base.retrieve("unique100x", mode="keyword")[0].document_id == "d100"
    assert "rebuilt from the database" in caplog.text  # in the background, at the latest by now


def test_a_file_where_the_folder_should_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    right = made(tmp_path / "kb.db")
    (index,) = (tmp_path / "kb.db.index").glob("text-*")
    shutil.rmtree(index)
    index.write_text("not a folder")
    with opened(tmp_path / "kb.db") as base:
        assert answers(base) == right
    assert "rebuilt from the database" in caplog.text


def _rounded(found: Answers) -> list[str]:
    """Which documents; removed chunks still count a little in the scores of the rest."""
    return sorted(name for name, _, _ in found)
