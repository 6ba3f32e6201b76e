"""In how many steps the text index follows the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.tantivy.index import LONGEST_STEP, SHORTEST_STEP, step_size
from lagotto.indexes.tantivy.writer import TantivyWriter


@pytest.mark.parametrize(
    ("missing", "steps"),
    [
        (1, 1),
        (16_000, 1),
        (16_001, 8),
        (100_000, 8),
        (200_000, 64),
        (500_000, 64),
        (1_000_000, 128),
    ],
)
def test_much_comes_in_a_power_of_eight_of_equal_steps(missing: int, steps: int) -> None:
    assert -(-missing // step_size(missing)) == steps


@given(st.integers(0, 10**8))
def test_a_step_is_neither_long_nor_tiny(missing: int) -> None:
    assert SHORTEST_STEP <= step_size(missing) <= LONGEST_STEP


def test_eight_steps_become_one_segment(tmp_path: Path) -> None:
    index = TantivyWriter.open(tmp_path)
    for step in range(8):
        added = [(step * 50 + number, ["word"]) for number in range(50)]
        index.apply(added=added, removed=(), since=step, stamp=step + 1)
    index.reload_if_changed()
    assert index.snapshot.searcher.num_segments == 1
