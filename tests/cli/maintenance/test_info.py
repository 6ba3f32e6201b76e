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
    assert "chunker:     recursive:256/32" in lines
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
