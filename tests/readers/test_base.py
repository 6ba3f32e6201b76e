from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lagotto.documents import Document
from lagotto.readers.base import CELL, HeadingMark, TextBuilder, one_line, sections
from lagotto.testing.readers import check_structure

WORDS = st.text("ab c|-#\n\t")
STEPS = st.one_of(
    st.tuples(st.just("paragraph"), WORDS),
    st.tuples(st.just("heading"), st.tuples(WORDS, st.integers(1, 6))),
    st.tuples(st.just("code"), WORDS),
    st.tuples(st.just("items"), st.lists(WORDS, max_size=4)),
    st.tuples(st.just("table"), st.lists(st.lists(WORDS, max_size=3), max_size=4)),
)


def build(steps: list[tuple[str, object]]) -> TextBuilder:
    builder = TextBuilder()
    for name, argument in steps:
        match name, argument:
            case "heading", (str() as title, int() as level):
                builder.heading(title, level=level)
            case _:
                getattr(builder, name)(argument)
    return builder


def as_document(builder: TextBuilder) -> Document:
    return Document(**vars(builder.draft()))


@given(st.lists(STEPS, max_size=12))
def test_spans_fit_whatever_is_built(steps: list[tuple[str, object]]) -> None:
    document = as_document(build(steps))
    check_structure(document)
    for heading in document.headings:
        assert document.text[heading.start :].startswith(heading.title)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4))
def test_rows_hold_their_cells(rows: list[list[str]]) -> None:
    document = as_document(
        build([("paragraph", "before"), ("table", rows), ("paragraph", "after")])
    )
    kept = [[one_line(cell) for cell in row] for row in rows]
    expected = [CELL.join(row) for row in kept if any(row)]
    found = [document.text[part.start : part.end] for b in document.blocks for part in b.parts]
    assert found == expected


def test_layout() -> None:
    builder = build(
        [
            ("heading", ("One\n two", 1)),
            ("paragraph", " text "),
            ("items", ["a", "b\n- c", " "]),
            ("paragraph", "  "),
            ("table", [["x", "y\nz"], ["", ""], ["1", ""]]),
            ("code", "\n  indented\n"),
        ]
    )
    assert builder.text == ("One two\n\ntext\n\n- a\n- b\n  - c\n\nx | y z\n1 | \n\n  indented")
    assert [block.kind for block in builder.blocks] == ["list", "table", "code"]


def test_sections_end_at_the_next_of_the_same_or_a_higher_level() -> None:
    marks = [
        HeadingMark(0, 1, "a"),
        HeadingMark(10, 2, "b"),
        HeadingMark(20, 3, "c"),
        HeadingMark(30, 2, "d"),
        HeadingMark(40, 1, "e"),
    ]
    spans = [(h.title, h.start, h.end) for h in sections(marks, end=50)]
    assert spans == [("a", 0, 40), ("b", 10, 30), ("c", 20, 30), ("d", 30, 40), ("e", 40, 50)]


def test_a_section_without_text_is_no_part_of_the_next() -> None:
    """Two outline entries of a PDF may lead to the same offset."""
    marks = [HeadingMark(0, 1, "a"), HeadingMark(5, 2, "empty"), HeadingMark(5, 2, "b")]
    document = Document(text="0123456789", headings=sections(marks, end=10))
    assert [(item.title, item.start, item.end) for item in document.headings] == [
        ("a", 0, 10),
        ("empty", 5, 5),
        ("b", 5, 10),
    ]
    check_structure(document)
