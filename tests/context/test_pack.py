from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import ContextPack, SelectedChunk, expand_neighbors, resolve
from lagotto.context.passages import ROLES
from lagotto.documents import Document
from lagotto.prefs import ContextPrefs, RetrievalPrefs
from lagotto.results import RetrievalResult, ScoreBreakdown
from lagotto.testing.strategies import documents

from .made import COUNT, Shelf, cut, hit, hits, paged, to_find

PAGE = "Oaks have roots here. Dogs dig near them. Truffles grow below. Nobody sees them. "
PAGED = paged(*(PAGE.replace("here", f"on page {number}") for number in range(1, 6)))
ALONE = ContextPrefs(include_parents=False, neighbor_same_page=0, neighbor_cross_page=0)


ROLE_ORDER = ContextPrefs(select="roles")


def roles(pack: ContextPack) -> list[str]:
    return [chunk.role for chunk in pack.selected_chunks]


@pytest.mark.parametrize("setting", sorted(ALONE.model_fields_set | {"min_primary_hits_to_keep"}))
def test_a_setting_of_roles_selects_by_roles(setting: str) -> None:
    default = getattr(ContextPrefs(), setting)
    assert ContextPrefs.model_validate({setting: default}).by_roles
    assert not ContextPrefs.model_validate({setting: default, "select": "worth"}).by_roles


def test_the_defaults_are_those_of_the_reference_design() -> None:
    prefs = RetrievalPrefs.preset("contextpack").context
    assert prefs.by_roles
    assert not ContextPrefs(cite_by="id").by_roles
    assert prefs == ContextPrefs(cite_by="id")
    assert prefs == ContextPrefs(
        max_tokens=12_000,
        neighbor_same_page=1,
        neighbor_cross_page=2,
        include_parents=True,
        min_primary_hits_to_keep=3,
        cite_by="id",
    )


def test_a_selected_chunk_is_whole_unless_it_says_otherwise() -> None:
    (chunk,) = (
        Shelf(PAGED, chunker="document")
        .pack(hits(cut(PAGED, "document")), prefs=ALONE)
        .selected_chunks
    )
    assert not chunk.truncated
    assert SelectedChunk.model_validate(chunk.model_dump(exclude={"truncated"})) == chunk


def test_hits_then_siblings_then_other_pages() -> None:
    shelf = Shelf(PAGED, chunker="page:8/0")
    chunks = shelf.all_to_find()
    middle = [chunk for chunk in chunks if chunk.pages == (3, 3)]
    pack = shelf.pack(hits(middle[1:2]), prefs=ROLE_ORDER)
    assert roles(pack) == ["primary", "sibling", "sibling", *["cross_page"] * 4]
    assert {chunk.chunk_id for chunk in pack.selected_chunks} == {
        chunk.id for chunk in expand_neighbors(middle[1], chunks)
    }
    assert [citation.pages for citation in pack.citations] == [(3, 3), (2, 2), (4, 4)]
    assert pack.trace.expansion_stats["cross_page"].found == 4


def test_a_chunk_has_the_strongest_of_its_roles() -> None:
    """The parent of one hit is a hit itself: it is a primary, and keeps its position."""
    shelf = Shelf(Document(text=PAGE * 4, title="Trees"), chunker="parent-child:64/12/0")
    child = shelf.all_to_find()[0]
    parent = next(chunk for (chunks,) in [shelf.chunks.values()] for chunk in chunks)
    assert child.parent_id == parent.id
    prefs = ALONE.model_copy(update={"include_parents": True})
    pack = shelf.pack(hits([child, parent]), prefs=prefs)
    found = [(chunk.chunk_id, chunk.role, chunk.rank) for chunk in pack.selected_chunks]
    assert found == [(child.id, "primary", 1), (parent.id, "primary", 2)]


def test_a_parent_stands_right_behind_its_child_and_takes_it_in() -> None:
    shelf = Shelf(Document(text=PAGE * 4, title="Trees"), chunker="parent-child:64/12/0")
    children = shelf.all_to_find()
    last = children[-1]
    pack = shelf.pack(hits([children[1], last]), prefs=ROLE_ORDER)
    assert roles(pack)[:4] == ["primary", "parent", "primary", "parent"]
    selected = pack.selected_chunks
    assert selected[1].chunk_id == children[1].parent_id
    assert [selected[0].marker, selected[1].marker] == [1, 1]
    assert [(item.start, item.end) for item in pack.citations] == [
        (selected[1].start, selected[1].end),
        (selected[3].start, selected[3].end),
    ]


def test_a_hit_that_became_its_parent_is_the_child_again() -> None:
    shelf = Shelf(Document(text=PAGE * 4), chunker="parent-child:64/12/0")
    child = shelf.all_to_find()[2]
    (chunks,) = shelf.chunks.values()
    (parent,) = [chunk for chunk in chunks if chunk.id == child.parent_id]
    replaced = hit(parent, child_id=child.id)
    assert (
        shelf.pack([replaced]).selected_chunks[:2] == shelf.pack(hits([child])).selected_chunks[:2]
    )


def test_overlapping_hits_are_one_passage() -> None:
    shelf = Shelf(Document(text=PAGE * 2), chunker="recursive:16/8")
    first, second = shelf.all_to_find()[:2]
    assert second.start < first.end
    pack = shelf.pack(hits([second, first]), prefs=ALONE)
    (citation,) = pack.citations
    assert citation.chunk_ids == (second.id, first.id)
    assert (citation.start, citation.end) == (first.start, second.end)
    assert [chunk.rank for chunk in pack.selected_chunks] == [1, 2]


def test_nothing_is_asked_for_where_only_the_hits_are_wanted() -> None:
    shelf = Shelf(PAGED)
    pack = shelf.pack(hits(shelf.all_to_find()[:2]), prefs=ALONE)
    assert roles(pack) == ["primary", "primary"]


def test_a_hit_that_is_not_stored_stands_for_itself() -> None:
    (made_at_query_time,) = to_find(Shelf(Document(id="d", text="Made late.")).all_to_find())
    shelf = Shelf(Document(id="d", text="Something else by now."))
    pack = shelf.pack(hits([made_at_query_time]))
    assert roles(pack) == ["primary"]
    assert pack.context_pack == "[1] Doc: d\nMade late."


def test_the_weakest_are_dropped_and_told() -> None:
    shelf = Shelf(PAGED, chunker="page:8/0")
    results = hits(shelf.all_to_find()[9:10])
    whole = shelf.pack(results, prefs=ROLE_ORDER)
    pack = shelf.pack(results, prefs=ContextPrefs(max_tokens=whole.tokens - 1, select="roles"))
    assert roles(pack) == roles(whole)[:-1]
    (gone,) = pack.trace.dropped
    assert gone.chunk_id == whole.selected_chunks[-1].chunk_id
    assert gone.role == "cross_page"
    assert gone.reason == f"with it the pack would have had more than {whole.tokens - 1} tokens"
    assert pack.trace.expansion_stats["cross_page"].kept == 3


def test_a_minimum_that_is_too_large_is_cut_at_a_sentence() -> None:
    shelf = Shelf(Document(id="d", text=PAGE), chunker="recursive:64/0")
    pack = shelf.pack(hits(shelf.all_to_find()), prefs=ContextPrefs(max_tokens=14))
    assert pack.context_pack == "[1] Doc: d\nOaks have roots here. …"
    (chunk,) = pack.selected_chunks
    assert chunk.truncated
    assert pack.trace.truncated == (chunk.chunk_id,)
    assert (pack.citations[0].start, pack.citations[0].end) == (0, len("Oaks have roots here."))


def test_a_budget_too_small_for_anything_gives_an_empty_pack_that_says_why() -> None:
    shelf = Shelf(PAGED)
    pack = shelf.pack(hits(shelf.all_to_find()[:1]), prefs=ContextPrefs(max_tokens=2))
    assert (pack.context_pack, pack.tokens, pack.citations) == ("", 0, ())
    assert pack.trace.notes == ("empty: 2 tokens are too few for even a part of a hit",)
    assert [chunk.role for chunk in pack.trace.dropped] == ["primary"]


def test_no_hits_give_an_empty_pack_that_says_why() -> None:
    pack = Shelf().pack([], notes=["text: no index"])
    assert pack.context_pack == ""
    assert pack.trace.notes == ("text: no index", "empty: nothing was found")


def test_the_trace_tells_what_the_reranker_said() -> None:
    shelf = Shelf(PAGED, chunker="page:16/0")
    first, second = shelf.all_to_find()[:2]
    judged = ScoreBreakdown(fused_score=0.4, rerank_score=0.7)
    results = [
        hit(first, 1, breakdown=judged, answerable=True, evidence=(0, 4)),
        hit(second, 2, breakdown=ScoreBreakdown(fused_score=0.6)),
    ]
    trace = shelf.pack(results).trace
    assert [item.chunk_id for item in trace.candidates] == [second.id, first.id]
    assert trace.pinecone_candidates == trace.candidates
    (said,) = trace.rerank_results
    assert (said.relevance_score, said.answerability, said.key_evidence) == (70, True, "Oaks")
    more = shelf.pack(results[:1], candidates=trace.candidates).trace
    assert more.candidates == trace.candidates


def test_a_pack_survives_json() -> None:
    shelf = Shelf(PAGED)
    pack = shelf.pack(hits(shelf.all_to_find()[:2]))
    assert ContextPack.model_validate_json(pack.model_dump_json()) == pack
    renamed = {"pinecone_candidates": pack.trace.candidates}
    assert type(pack.trace).model_validate(renamed).candidates == pack.trace.candidates


CHUNKERS = ["parent-child:32/12/4", "page:12/0", "recursive:16/6"]
PREFS = st.builds(
    ContextPrefs,
    max_tokens=st.integers(1, 300),
    neighbor_same_page=st.integers(0, 2),
    neighbor_cross_page=st.integers(0, 2),
    include_parents=st.booleans(),
    min_primary_hits_to_keep=st.integers(1, 4),
)


@st.composite
def shelves(draw: st.DrawFn) -> tuple[Shelf, list[RetrievalResult]]:
    """Some documents, and any of their chunks in any order as hits."""
    texts = draw(st.lists(documents(max_elements=5), min_size=1, max_size=2))
    named = [
        text.model_copy(update={"id": f"d{number}", "title": draw(st.sampled_from([None, "T\n["]))})
        for number, text in enumerate(texts)
    ]
    shelf = Shelf(*named, chunker=draw(st.sampled_from(CHUNKERS)))
    chunks = shelf.all_to_find()
    chosen = draw(st.lists(st.sampled_from(chunks), unique=True, max_size=6)) if chunks else []
    return shelf, hits(chosen)


@given(shelves(), PREFS, st.sampled_from(["plain", "markdown", "xml"]))
def test_every_pack_keeps_its_promises(
    given_: tuple[Shelf, list[RetrievalResult]], prefs: ContextPrefs, format_: str
) -> None:
    shelf, results = given_
    pack = shelf.pack(results, prefs=prefs, format=format_)

    # the budget
    assert pack.tokens == COUNT(pack.context_pack) == pack.trace.final_token_count
    assert pack.tokens <= prefs.max_tokens

    # the minimum, whole where it fits
    least = results[: prefs.min_primary_hits_to_keep]
    bare = shelf.pack(least, prefs=ALONE, format=format_)
    if bare.tokens <= prefs.max_tokens and not bare.trace.truncated and not bare.trace.dropped:
        kept = {chunk.chunk_id for chunk in pack.selected_chunks if not chunk.truncated}
        assert {result.chunk_id for result in least} <= kept

    # the order: hits by rank, each before its parent; siblings; other pages
    stages = [max(1, ROLES.index(chunk.role)) for chunk in pack.selected_chunks]
    assert stages == sorted(stages)
    hits_and_parents = pack.selected_chunks[: stages.count(1)]
    assert [chunk.rank for chunk in hits_and_parents] == sorted(
        chunk.rank for chunk in hits_and_parents
    )
    first_seen = list(dict.fromkeys(chunk.marker for chunk in pack.selected_chunks))
    assert first_seen == [citation.marker for citation in pack.citations]
    assert first_seen == list(range(1, len(first_seen) + 1))

    # no character of a document twice
    for name in shelf.documents:
        spans = sorted(
            (citation.start, citation.end)
            for citation in pack.citations
            if (citation.collection, citation.document_id) == name
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))

    # nothing is lost without a word
    assert len(pack.selected_chunks) + len(pack.trace.dropped) == sum(
        count.found for count in pack.trace.expansion_stats.values()
    )

    # every citation resolves to a text that holds its chunks
    for citation in pack.citations:
        found = asyncio.run(resolve(citation.key, document_of=shelf.get))
        document = shelf.documents[found.collection, found.document_id]
        assert found.text == document.text[citation.start : citation.end]
        for chunk in pack.selected_chunks:
            if chunk.marker == citation.marker:
                assert found.text[chunk.start - found.start :].startswith(chunk.text)


def test_a_pack_prints_as_its_text_its_keys_and_its_size() -> None:
    shelf = Shelf(Document(id="d", text="Oaks have roots here."))
    pack = shelf.pack(hits(shelf.all_to_find()))
    (citation,) = pack.citations
    assert str(pack) == (
        f"{pack.context_pack}\n[1] {citation.key}\n{pack.tokens} tokens, 1 citation"
    )
    few = shelf.pack(hits(shelf.all_to_find()), prefs=ContextPrefs(max_tokens=1))
    assert str(few) == (
        "0 tokens, 0 citations\nnote: empty: 1 tokens are too few for even a part of a hit"
    )
