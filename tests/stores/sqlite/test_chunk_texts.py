"""Texts of chunks are stored beside them: reading them takes time linear in a document's length."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.stores.sql.write import SHORT_TEXT
from tests.growth import grows_linearly
from tests.stores.sqlite.bases import answers, fetch, made, opened, run_sql


def texts(path: Path) -> list[tuple[str, str]]:
    """The text of each chunk as it is stored, and as its document has it."""
    return fetch(
        path,
        'SELECT chunk_text.text, substr(document.text, start + 1, "end" - start) FROM chunk '
        "JOIN document ON document.key = document_key "
        "LEFT JOIN chunk_text ON chunk_key = chunk.key",
    )


def prose(characters: int) -> str:
    """A text of at least so many characters."""
    count = characters // 40 + 1
    return "".join(f"The dog number {n} smells the root of an old oak. " for n in range(count))


@pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
def test_texts_are_those_of_the_documents(tmp_path: Path, text_index: str) -> None:
    path = tmp_path / "kb.db"
    with opened(path, text_index=text_index) as base:
        base.add(*(Document(id=str(n), text=f"Zwölf Wörter, {n}-mal. 🐕 " * 99) for n in range(5)))
        base.add(Document(id="3", text="Nothing else. " * 150))
        base.remove("4")
        rows = texts(path)
        assert len(rows) > 10
        assert all(stored == cut for stored, cut in rows)
        base.rebuild(chunker="recursive:12/2")
        more = texts(path)
        assert len(more) > len(rows)
        assert all(stored == cut for stored, cut in more)
        base.remove(*(item.id for item in base.documents()))
    assert fetch(path, "SELECT count(*) FROM chunk_text") == [(0,)]


def test_short_documents_have_no_texts_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    sizes = {"short": SHORT_TEXT, "long": SHORT_TEXT + 1}
    with opened(path) as base:
        base.add(*(Document(id=name, text=prose(size)[:size]) for name, size in sizes.items()))
        for name, size in sizes.items():
            assert base.chunks(name)[-1].text == prose(size)[:size][base.chunks(name)[-1].start :]
    stored = {text is not None for text, _ in texts(path)}
    assert stored == {True, False}


def test_a_text_that_is_lost_is_cut_out_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    expected = made(path)
    run_sql(path, "DELETE FROM chunk_text")
    with opened(path) as base:
        assert answers(base) == expected


def test_time_is_linear_in_the_length_of_a_document(tmp_path: Path) -> None:
    sizes = (50_000, 400_000)
    with opened(tmp_path / "kb.db") as base:
        base.add(*(Document(id=str(size), text=prose(size)) for size in sizes))
        assert grows_linearly(lambda size: base.chunks(str(size)), sizes[0], times=8)
