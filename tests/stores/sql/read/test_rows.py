from __future__ import annotations

from lagotto.documents import ChunkSection
from lagotto.stores.sql.read import _section, _section_row


def test_sections_with_and_without_rows() -> None:
    bare, full = ChunkSection(0, ("A",)), ChunkSection(7, ("A", "B"), (1, 3), None)
    assert _section_row(bare) == [0, ("A",)]  # as they were before sections had rows and items
    assert [_section(_section_row(section)) for section in (bare, full)] == [bare, full]
