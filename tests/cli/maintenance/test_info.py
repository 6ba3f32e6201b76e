from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.cli.maintenance import _not_indexed
from lagotto.indexes.base import IndexState
from lagotto.stores.base import StoreInfo
from tests.cli.running import run

pytestmark = pytest.mark.slow

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
