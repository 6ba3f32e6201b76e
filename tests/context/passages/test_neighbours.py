from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import expand_neighbors
from lagotto.documents import Chunk, Document
from lagotto.prefs import ContextPrefs
from lagotto.testing.strategies import documents
from tests.context.made import cut, paged, to_find

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
