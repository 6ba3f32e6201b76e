"""A few rounds of the campaign: nothing acknowledged is lost, and no answer is wrong."""

from __future__ import annotations

import pytest

from tests.campaign import run_campaign

pytestmark = pytest.mark.slow


def test_kills_in_every_operation() -> None:
    counts = run_campaign("kills", "tantivy,fts5", count=16)
    for kind in ("tantivy", "fts5"):
        assert sorted(counts[kind]["kills"].values()) == [1] * 8
    assert sum(found["midway"] for found in counts.values()) > 0


def test_damage_in_every_file() -> None:
    counts = run_campaign("damage", "tantivy,fts5", count=24)
    for found in counts.values():
        assert found["index_files"]["right"] > 0
        assert sum(found["database"].values()) > 0


def test_writers_readers_and_a_copier() -> None:
    (found,) = run_campaign("traffic", "fts5", count=1).values()
    assert found["searches"] > 0
