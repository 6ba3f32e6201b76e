from __future__ import annotations

from lagotto.context.passages import covering, sections_of
from lagotto.documents import ChunkSection
from tests.context.test_passages import span


def test_a_section_that_covers_almost_all_is_cited() -> None:
    sections = [ChunkSection(0, ("A", "B"), (1, 2)), ChunkSection(95, ("A", "C"))]
    assert covering(sections, 100) == sections[0]


def test_several_sections_are_cited_by_the_innermost_that_covers_them() -> None:
    sections = [
        ChunkSection(0, ("A", "B", "x")),
        ChunkSection(40, ("A", "B", "y")),
        ChunkSection(96, ("C",)),
    ]
    assert covering(sections, 100).heading_path == ("A", "B")
    assert covering(sections, 140).heading_path == ()


def test_a_section_claims_rows_only_if_it_covers_the_text_itself() -> None:
    sections = [ChunkSection(0, ("A",), (1, 2)), ChunkSection(50, ("A", "B"), (3, 4))]
    assert covering(sections, 100) == ChunkSection(0, ("A",))


def test_sections_of_chunks_that_overlap_are_counted_once() -> None:
    inner = (ChunkSection(0, ("A",)), ChunkSection(6, ("B",)))
    first = span(0, 16, heading_path=(), sections=inner)
    second = span(11, 22, heading_path=("B",))
    third = span(22, 30, heading_path=("C",))
    found = sections_of([first, second, third])
    assert [(section.start, section.heading_path) for section in found] == [
        (0, ("A",)),
        (6, ("B",)),
        (22, ("C",)),
    ]


def test_rows_of_a_section_go_on_in_the_next_chunk() -> None:
    first = span(0, 11, heading_path=("A",), row_range=(1, 3))
    second = span(11, 22, heading_path=("A",), row_range=(4, 6))
    assert sections_of([first, second]) == [ChunkSection(0, ("A",), (1, 6))]
