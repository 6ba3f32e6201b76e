"""Given metadata and moved folders, on a server as in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder

pytestmark = pytest.mark.server


def test_given_metadata_and_a_moved_folder(location: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a", "b"):
        (notes / f"{name}.md").write_text(f"The text of {name}.")
    with KnowledgeBase(location, embedder=HashEmbedder()) as base:
        base.add(notes, metadata={"topic": "oaks"})
        base.add(notes)
        assert [item.metadata for item in base.documents()] == [{"topic": "oaks"}] * 2
        moved = notes.rename(tmp_path / "archive")
        report = base.sync(moved, moved=True)
        assert (report.added, report.removed) == (2, 2)
        assert [item.metadata for item in base.documents()] == [{"topic": "oaks"}] * 2
