from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import expand_neighbors
from lagotto.context.passages import PackRole, Piece, covering, merged, sections_of, stitched
from lagotto.documents import Block, Chunk, ChunkSection, Document, Span
from lagotto.prefs import ContextPrefs
from lagotto.testing.strategies import documents

from .made import cut, hit, paged, to_find


def piece(chunk: Chunk, role: PackRole = "primary") -> Piece:
    return Piece(chunk, role, hit(chunk))


TEXT = Document(text="alpha beta gamma delta epsilon zeta", title="Greek")


def span(start: int, end: int, *, document: Document = TEXT, **fields: object) -> Chunk:
    given = {
        "id": f"{start}-{end}",
        "collection": document.collection,
        "document_id": document.id,
        "chunker_id": "x",
        "ordinal": start,
        "start": start,
        "end": end,
        "text": document.text[start:end],
        "token_count": 1,
    }
    return Chunk.model_validate({**given, **fields})


def test_what_overlaps_is_one_passage_at_the_place_of_its_first_piece() -> None:
    pieces = [piece(span(17, 22)), piece(span(0, 10)), piece(span(6, 16), "sibling")]
    passages = merged(pieces)
    assert [passage.text for passage in passages] == ["delta", "alpha beta gamma"]
    assert [passage.lead.role for passage in passages] == ["primary", "primary"]


def test_a_chunk_inside_another_is_absorbed_and_the_strongest_role_stays() -> None:
    (passage,) = merged([piece(span(6, 10)), piece(span(0, 22), "parent")])
    assert (passage.start, passage.end, passage.lead.role) == (0, 22, "primary")
    assert passage.text == TEXT.text[:22]


def test_a_neighbour_joins_what_it_touches_on_its_page() -> None:
    document = paged("alpha beta gamma ", "delta epsilon")
    first = span(0, 6, document=document, pages=(1, 1))
    second = span(6, 11, document=document, pages=(1, 1))
    third = span(11, 17, document=document, pages=(1, 1))
    fourth = span(17, 23, document=document, pages=(2, 2))

    def texts(*pieces: Piece) -> list[str]:
        return [passage.text for passage in merged(pieces)]

    assert texts(piece(second), piece(first, "sibling")) == ["alpha beta "]
    assert texts(piece(first), piece(second), piece(third, "sibling")) == ["alpha ", "beta gamma "]
    assert texts(piece(fourth), piece(third, "sibling")) == ["delta ", "gamma "]


def test_other_documents_and_collections_stay_apart() -> None:
    elsewhere = TEXT.model_copy(update={"collection": "other"})
    passages = merged([piece(span(0, 10)), piece(span(6, 16, document=elsewhere))])
    assert [passage.lead.chunk.collection for passage in passages] == ["default", "other"]


def test_two_versions_of_a_document_are_not_mixed() -> None:
    changed = span(6, 16, text="BETA gamma")
    assert len(merged([piece(span(0, 10)), piece(changed)])) == 2


def test_row_ranges_join_where_they_follow_on_each_other() -> None:
    first, second = span(0, 10, row_range=(1, 3)), span(6, 16, row_range=(3, 5))
    apart, none = span(6, 16, row_range=(9, 9)), span(6, 16)
    assert merged([piece(second), piece(first)])[0].location.row_range == (1, 5)
    inside = span(0, 6, row_range=(1, 2))
    assert merged([piece(first), piece(inside)])[0].location.row_range == (1, 3)
    assert merged([piece(first), piece(apart)])[0].location.row_range is None
    assert merged([piece(first), piece(none)])[0].location.row_range is None


def test_the_label_is_a_citation_with_the_section_that_covers_the_passage() -> None:
    first = span(0, 10, pages=(1, 1), heading_path=("A",), item_range=(1, 2))
    second = span(6, 16, pages=(2, 3), heading_path=("A", "B"), item_range=(2, 2))
    lead = Piece(second, "primary", hit(second, document_title="Greek"))
    (passage,) = merged([lead, piece(first, "sibling")])
    assert passage.label == "Doc: Greek | Page: 1-3 | Section: A"
    assert [section.heading_path for section in passage.sections] == [("A",), ("A", "B")]


def test_pieces_that_touch_join_where_a_section_covers_both() -> None:
    def texts(*paths: tuple[str, ...]) -> list[str]:
        spans = ((0, 6), (6, 11), (11, 17))
        chunks = [span(*at, heading_path=path) for at, path in zip(spans, paths, strict=False)]
        return [passage.text for passage in merged(list(map(piece, chunks)), adjoining=True)]

    assert texts((), ()) == ["alpha beta "]
    assert texts(("A",), ("A",)) == ["alpha beta "]
    assert texts(("A",), ("A", "B")) == ["alpha beta "]
    assert texts(("A", "B", "C"), ("A", "B", "D")) == ["alpha beta "]
    assert texts(("A", "B"), ("A", "C")) == ["alpha ", "beta "]
    assert texts((), ("A",)) == ["alpha ", "beta "]
    assert texts(("A",), ("B",), ("B",)) == ["alpha ", "beta gamma "]


def test_real_rows_keep_their_numbers() -> None:
    rows = [f"row {number} has some words\n" for number in range(1, 9)]
    spans, at = [], 0
    for row in rows:
        spans.append(Span(at, at + len(row)))
        at += len(row)
    block = Block(start=0, end=at, kind="table", parts=tuple(spans))
    document = Document(text="".join(rows), blocks=(block,))
    chunks = cut(document, "recursive:16/0")
    (passage,) = merged([piece(chunk, "sibling") for chunk in chunks])
    assert len(chunks) > 1
    assert passage.location.row_range == (1, 8)


@given(documents(), st.data())
def test_passages_are_the_document_and_never_overlap(
    document: Document, data: st.DataObject
) -> None:
    chunks = cut(document, data.draw(st.sampled_from(["recursive:12/6", "parent-child:24/12/4"])))
    chosen = data.draw(st.lists(st.sampled_from(chunks), unique=True)) if chunks else []
    passages = merged([piece(chunk) for chunk in chosen])
    for passage in passages:
        assert passage.text == document.text[passage.start : passage.end]
    spans = sorted((passage.start, passage.end) for passage in passages)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert sorted(item.chunk.id for passage in passages for item in passage.pieces) == sorted(
        chunk.id for chunk in chosen
    )


@given(st.text(min_size=1, max_size=40), st.lists(st.integers(1, 39), max_size=5), st.data())
def test_stitching_undoes_overlapping_cuts(text: str, cuts: list[int], data: st.DataObject) -> None:
    edges = sorted({0, *(offset for offset in cuts if offset < len(text)), len(text)})
    overlap = data.draw(st.integers(0, 5))
    parts = [
        (max(0, start - overlap), text[max(0, start - overlap) : end])
        for start, end in pairwise(edges)
    ]
    assert stitched(data.draw(st.permutations(parts))) == text


def test_a_passage_is_truncated_if_one_of_its_last_pieces_is() -> None:
    whole = piece(span(0, 10), "sibling")
    cut_off = replace(piece(span(6, 16)), cut_after=True)
    (passage,) = merged([whole, cut_off])
    assert passage.truncated
    (passage,) = merged([replace(whole, cut_after=True), replace(cut_off, cut_after=False)])
    assert not passage.truncated


def test_what_a_hit_covers_does_not_join_it_to_the_next_hit() -> None:
    pieces = [piece(span(0, 10)), piece(span(6, 10), "sibling"), piece(span(10, 16))]
    assert [passage.text for passage in merged(pieces)] == ["alpha beta", " gamma"]


SENTENCES = "".join(f"Sentence number {number} is here. " for number in range(12))


def ordinals(chunks: list[Chunk]) -> list[int]:
    return [chunk.ordinal for chunk in chunks]


def test_without_pages_they_are_the_chunks_before_and_behind() -> None:
    chunks = cut(Document(text=SENTENCES), "sentence:8/0")
    assert ordinals(expand_neighbors(chunks[5], chunks)) == [4, 5, 6]
    assert ordinals(expand_neighbors(chunks[0], chunks)) == [0, 1]
    assert ordinals(expand_neighbors(chunks[-1], chunks)) == [10, 11]
    assert ordinals(expand_neighbors(chunks[2], chunks, ContextPrefs(neighbor_same_page=3))) == [
        0, 1, 2, 3, 4, 5,
    ]  # fmt: skip
    assert ordinals(expand_neighbors(chunks[5], chunks, ContextPrefs(neighbor_same_page=3))) == [
        2, 3, 4, 5, 6, 7, 8,
    ]  # fmt: skip


def test_children_have_siblings_of_the_same_parent_only() -> None:
    chunks = cut(Document(text=SENTENCES), "parent-child:24/8/0")
    children = to_find(chunks)
    parents = {chunk.id: chunk for chunk in chunks if chunk.level == "parent"}
    for child in children:
        found = expand_neighbors(child, chunks, ContextPrefs(neighbor_same_page=99))
        family = [item for item in children if item.parent_id == child.parent_id]
        assert found == family
    assert len(parents) > 1


def test_adjacent_pages_give_their_nearest_chunks() -> None:
    page = "One small sentence here. Two small sentences here. Three small ones here. "
    document = paged(page, page, page, page, page)
    chunks = cut(document, "page:8/0")
    per_page = len(chunks) // 5
    middle = chunks[2 * per_page + 1]
    found = expand_neighbors(middle, chunks)
    at = middle.ordinal
    own = [at - 1, at, at + 1]
    before = [2 * per_page - 2, 2 * per_page - 1]
    assert ordinals(found) == sorted({*own, *before, 3 * per_page, 3 * per_page + 1})
    assert {chunk.pages for chunk in found} == {(2, 2), (3, 3), (4, 4)}


def test_a_page_without_text_is_passed_over() -> None:
    document = paged("First page. ", " ", "Third page. ")
    first, third = cut(document, "page:16/0")
    assert expand_neighbors(third, [first, third]) == [first, third]
    assert expand_neighbors(third, [first, third], ContextPrefs(neighbor_cross_page=0)) == [third]


def test_other_documents_and_levels_are_left_out() -> None:
    document, other = Document(text=SENTENCES), Document(text=SENTENCES + "More.")
    chunks = cut(document, "parent-child:24/8/0")
    child = to_find(chunks)[1]
    found = expand_neighbors(child, [*cut(other, "parent-child:24/8/0"), *reversed(chunks)])
    assert {(chunk.document_id, chunk.level) for chunk in found} == {(document.id, "child")}


@given(documents(), st.integers(0, 3), st.integers(0, 3), st.data())
def test_the_chunk_is_among_them_in_document_order(
    document: Document, near: int, far: int, data: st.DataObject
) -> None:
    chunker = data.draw(st.sampled_from(["page:12/0", "recursive:12/4", "parent-child:24/12/4"]))
    chunks = cut(document, chunker)
    if not chunks:
        return
    chunk = data.draw(st.sampled_from(to_find(chunks)))
    prefs = ContextPrefs(neighbor_same_page=near, neighbor_cross_page=far)
    found = expand_neighbors(chunk, chunks, prefs)
    assert chunk in found
    assert found == sorted(found, key=lambda item: (item.start, item.end))
    assert len({item.id for item in found}) == len(found) <= 1 + 2 * near + 2 * far


def test_a_chunk_without_pages_has_no_neighbours_on_pages() -> None:
    first, second = cut(paged("First page. ", "Second page. "), "page:16/0")
    loose = first.model_copy(update={"pages": None, "id": "loose"})
    assert expand_neighbors(loose, [loose, second]) == [loose]
    assert expand_neighbors(second, [loose, second]) == [second]


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


def test_the_header_of_a_table_is_that_of_the_first_chunk_in_the_text() -> None:
    """Whatever the order in which its chunks were found."""
    later = span(11, 22, element="table", context="| letter |")
    (passage,) = merged([piece(later), piece(span(0, 16), "sibling")])
    assert (passage.start, passage.context) == (0, "")
    (passage,) = merged([piece(later), piece(span(6, 16, element="table", context="| name |"))])
    assert passage.context == "| name |\n"
