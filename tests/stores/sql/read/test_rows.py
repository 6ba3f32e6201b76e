from __future__ import annotations

import logging

import numpy as np
import pytest

from lagotto.documents import ChunkSection
from lagotto.stores.sql.read import _section, _section_row, unit_vectors


def test_sections_with_and_without_rows() -> None:
    bare, full = ChunkSection(0, ("A",)), ChunkSection(7, ("A", "B"), (1, 3), None)
    assert _section_row(bare) == [0, ("A",)]  # as they were before sections had rows and items
    assert [_section(_section_row(section)) for section in (bare, full)] == [bare, full]


@pytest.mark.parametrize(
    ("square", "whole"), [(1.0019, True), (0.9981, True), (1.0021, False), (0.9979, False)]
)
def test_a_vector_that_is_not_of_length_1_is_left_out(
    square: float, whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    good, other = np.array([0, 1], "<f4"), np.array([np.sqrt(square), 0], "<f4")
    stored = [(3, good.tobytes()), (5, other.tobytes())]
    keys, rows = unit_vectors(stored, 2)
    assert keys.tolist() == ([3, 5] if whole else [3])
    assert rows.tolist() == ([good.tolist(), other.tolist()] if whole else [good.tolist()])
    assert ("1 vectors are damaged" in caplog.text) is not whole
    caplog.clear()
    bad = [*stored[:1], (7, "text"), (8, b"short")]
    assert unit_vectors(bad, 2, warn=False)[0].tolist() == [3]
    assert not caplog.text
