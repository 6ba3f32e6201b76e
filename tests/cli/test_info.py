from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.stores.base import StoreInfo
from tests.cli.running import run

pytestmark = pytest.mark.slow


def test_info(base: Path) -> None:
    found = StoreInfo.model_validate(run("--kb", base, "info", "--json").json)
    assert (found.documents, found.collections) == (4, {"default": 4})
    lines = run("--kb", base, "info").out.splitlines()
    assert "documents:   4" in lines
    assert "collections: default (4)" in lines
    assert "embedder:    all-MiniLM-L6-v2 (minilm, dimension 384)" in lines
    assert "chunker:     recursive:256/32" in lines
    assert "text index:  tantivy" in lines
