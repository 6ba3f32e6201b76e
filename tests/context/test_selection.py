from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import ContextPack, Coverage, resolve
from lagotto.context.pack import _Frame, _packed
from lagotto.context.passages import by_document as known_by_document
from lagotto.context.selection import PackQuery, StopRule
from lagotto.documents import Chunk, Document
from lagotto.prefs import ContextPrefs
from lagotto.results import RetrievalResult

from .made import COUNT, Shelf, hit, hits
from .test_pack import shelves

NUMBERS = ("one", "two", "three", "four", "five")
SENTENCES = [f"Sentence {number} speaks of nothing much at all." for number in NUMBERS]
LONG = Document(id="long", text=" ".join(SENTENCES))
OTHER = Document(id="other", text=" ".join(reversed(SENTENCES)))


def scored(*pairs: tuple[Chunk, float]) -> list[RetrievalResult]:
    return [hit(chunk, rank, score=score) for rank, (chunk, score) in enumerate(pairs, 1)]


def by_document(shelf: Shelf) -> tuple[Sequence[Chunk], ...]:
    return tuple(shelf.chunks.values())


def packed(shelf: Shelf, results: Sequence[RetrievalResult], **prefs: Any) -> ContextPack:
    return shelf.pack(results, prefs=ContextPrefs(**prefs))


def spans(pack: ContextPack) -> list[tuple[str, int, int]]:
    return [(chunk.document_id, chunk.start, chunk.end) for chunk in pack.selected_chunks]


def test_a_neighbour_of_a_good_hit_goes_before_a_weak_hit() -> None:
    shelf = Shelf(LONG, OTHER, chunker="recursive:16/0")
    long, other = by_document(shelf)
    pack = packed(shelf, scored((long[1], 0.8), (other[1], 0.3)))
    ids = [chunk.chunk_id for chunk in pack.selected_chunks]
    assert ids[:3] == [long[1].id, long[0].id, long[2].id]  # worth 0.8, then 0.4 each
    assert ids.index(other[1].id) == 3
    assert [chunk.role for chunk in pack.selected_chunks[:4]] == [
        "primary", "sibling", "sibling", "primary",
    ]  # fmt: skip


def test_a_neighbour_that_is_a_hit_is_worth_the_mean() -> None:
    """The chunk beside the best hit has a lower score than the other document's, but goes first."""
    shelf = Shelf(LONG, OTHER, chunker="recursive:16/0")
    long, other = by_document(shelf)
    results = scored((long[1], 0.8), (other[1], 0.5), (long[2], 0.4))
    ids = [chunk.chunk_id for chunk in packed(shelf, results).selected_chunks]
    assert ids[:3] == [long[1].id, long[2].id, other[1].id]


def test_hits_that_touch_are_one_passage() -> None:
    shelf = Shelf(LONG, chunker="recursive:16/0")
    (chunks,) = by_document(shelf)
    (citation,) = packed(shelf, hits(chunks[1:3])).citations
    assert citation.chunk_ids[:2] == (chunks[1].id, chunks[2].id)


def test_what_is_left_goes_to_a_piece_that_fits() -> None:
    shelf = Shelf(LONG, Document(id="short", text="Short."), chunker="document")
    (long,), (short,) = by_document(shelf)
    pack = packed(shelf, scored((long, 0.9), (short, 0.1)), max_tokens=20)
    assert [chunk.document_id for chunk in pack.selected_chunks] == ["short"]
    (gone,) = pack.trace.dropped
    assert gone.reason == "with it the pack would have had more than 20 tokens"


def test_a_hit_that_is_too_long_is_cut_to_the_sentences_that_speak_for_the_query() -> None:
    text = "Oaks grow old. " * 12 + "Truffles smell of garlic. Pigs like it. " + "Elms die. " * 19
    document = Document(id="d", text=text)
    shelf = Shelf(document, chunker="document")
    found = hit(by_document(shelf)[0][0], language="en")
    prefs = ContextPrefs(max_tokens=30)
    pack = shelf.pack([found], prefs=prefs, query="What do truffles smell of?")
    (chunk,) = pack.selected_chunks
    assert "Truffles smell of garlic." in chunk.text
    assert chunk.text == text[chunk.start : chunk.end]
    assert chunk.truncated
    assert 0 < chunk.start < chunk.end < len(text.strip())
    assert pack.tokens <= 30
    assert pack.context_pack == f"[1] Doc: d\n… {chunk.text} …"
    assert pack.trace.truncated == (chunk.chunk_id,)


def test_a_parent_is_worth_as_much_as_its_child() -> None:
    document = Document(text=" ".join(SENTENCES * 2), title="Trees")
    shelf = Shelf(document, chunker="parent-child:64/12/0")
    child = shelf.all_to_find()[1]
    pack = shelf.pack(hits([child]))
    assert [(item.chunk_id, item.role) for item in pack.selected_chunks[:2]] == [
        (child.id, "primary"),
        (child.parent_id, "parent"),
    ]


def test_an_identical_text_is_shown_once_and_says_where_else_it_is() -> None:
    copies = [
        Document(id=name, source=f"{name}.pdf", title="Invoice", text="The total is 420 euros.")
        for name in ("one", "two", "three")
    ]
    shelf = Shelf(*copies, LONG, chunker="document")
    (one,), (two,), (three,), (long,) = by_document(shelf)
    results = [
        hit(chunk, rank, document_title="Invoice", document_source=f"{chunk.document_id}.pdf")
        for rank, chunk in enumerate((one, two, three), 1)
    ]
    pack = shelf.pack([*results, hit(long, 4)])
    assert pack.context_pack.count("The total is 420 euros.") == 1
    first, _ = pack.citations
    assert first.also_in == ("two.pdf", "three.pdf")
    assert first.label == "Doc: Invoice | Also in: two.pdf, three.pdf"
    reasons = {item.reason for item in pack.trace.dropped}
    assert reasons == {"another document has the same text, and is considered for both"}


def test_documents_without_a_text_are_no_copies() -> None:
    shelf = Shelf(LONG, OTHER, chunker="document")
    empty = [
        chunk.model_copy(update={"text": "", "end": chunk.start}) for (chunk,) in by_document(shelf)
    ]
    pack = shelf.pack(hits(empty), chunks=empty)
    assert len(pack.selected_chunks) == 2


def test_neighbours_of_copies_are_not_repeated() -> None:
    twin = LONG.model_copy(update={"id": "twin"})
    shelf = Shelf(LONG, twin, chunker="recursive:16/0")
    long, twins = by_document(shelf)
    pack = shelf.pack(scored((long[0], 0.9), (twins[1], 0.8)))
    assert pack.context_pack.count("Sentence two") == 1


STOP = StopRule(relative=0.5, absolute=0.2, weak=0.45, close=0.8)


def test_a_pack_stops_where_evidence_stops() -> None:
    shelf = Shelf(LONG, OTHER, Document(id="third", text="Third."), chunker="document")
    (long,), (other,), (third,) = by_document(shelf)
    results = scored((long, 0.8), (other, 0.41), (third, 0.39))
    pack = shelf.pack(results, stop=STOP)
    assert [chunk.document_id for chunk in pack.selected_chunks] == ["long", "other"]
    (gone,) = pack.trace.dropped
    assert gone.reason == "0.39 is below 0.40, where evidence stops"
    left = 12_000 - pack.tokens
    (note,) = pack.trace.notes
    assert note.startswith("stopped at a score of 0.40 with ")
    assert abs(int(note.split()[7]) - left) < 10
    filled = shelf.pack(results)
    assert len(filled.selected_chunks) == 3
    assert not filled.trace.notes


def test_a_pack_that_nothing_fits_is_short_and_says_so() -> None:
    shelf = Shelf(LONG, OTHER, chunker="document")
    (long,), (other,) = by_document(shelf)
    weak = shelf.pack(scored((long, 0.4), (other, 0.3)), stop=STOP)
    assert [chunk.document_id for chunk in weak.selected_chunks] == ["long"]
    assert weak.trace.notes[0].startswith("no passage fits the question closely")
    none = shelf.pack(scored((long, 0.15), (other, 0.1)), stop=STOP)
    assert none.context_pack == ""
    assert none.trace.notes[0].startswith("no passage fits the question closely")


def test_a_full_pack_does_not_say_that_it_stopped() -> None:
    shelf = Shelf(LONG, OTHER, chunker="document")
    (long,), (other,) = by_document(shelf)
    whole = shelf.pack(scored((long, 0.8)))
    prefs = ContextPrefs(max_tokens=whole.tokens)
    pack = shelf.pack(scored((long, 0.8), (other, 0.1)), prefs=prefs, stop=STOP)
    assert not pack.trace.notes


@given(
    shelves(),
    st.integers(1, 300),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.sampled_from(["plain", "markdown", "xml"]),
    st.sampled_from([COUNT, len, lambda text: len(text.split())]),
)
def test_every_pack_by_worth_keeps_its_promises(
    given_: tuple[Shelf, list[RetrievalResult]],
    budget: int,
    scores: list[float],
    format_: str,
    count: Any,
) -> None:
    shelf, results = given_
    scores = sorted(scores, reverse=True)
    results = [
        result.model_copy(update={"score": score})
        for result, score in zip(results, scores, strict=False)
    ]
    prefs = ContextPrefs(max_tokens=budget)
    pack = shelf.pack(results, prefs=prefs, format=format_, count=count)
    assert pack.tokens == count(pack.context_pack) <= budget
    first_seen = list(dict.fromkeys(chunk.marker for chunk in pack.selected_chunks))
    assert first_seen == list(range(1, len(pack.citations) + 1))
    for name in shelf.documents:
        cited = sorted(
            (citation.start, citation.end)
            for citation in pack.citations
            if (citation.collection, citation.document_id) == name
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(cited))
    assert len(pack.selected_chunks) + len(pack.trace.dropped) == sum(
        count.found for count in pack.trace.expansion_stats.values()
    )
    for citation in pack.citations:
        found = asyncio.run(resolve(citation.key, document_of=shelf.get))
        if len(citation.chunk_ids) == 1 and not pack.trace.truncated:
            shown = (found.heading_path, found.sections)
            assert shown == (citation.heading_path, citation.sections)
        for chunk in pack.selected_chunks:
            if chunk.marker == citation.marker:
                assert found.text[chunk.start - found.start :].startswith(chunk.text)


TOLD = " ".join(f"Tale {word} is told of people who lived here before." for word in NUMBERS)
SECOND = Document(id="second", text=TOLD)


def many(shelf: Shelf, *results: Sequence[RetrievalResult], **prefs: Any) -> ContextPack:
    """A pack for several questions, named by their numbers."""
    chunks = [chunk for chunks in shelf.chunks.values() for chunk in chunks]
    stop = StopRule() if prefs.pop("stop", False) else None
    asked = [PackQuery(str(number), found, stop) for number, found in enumerate(results, 1)]
    return _packed(
        asked,
        known_by_document(chunks),
        _Frame(COUNT, "plain", ContextPrefs(**prefs)),
        ((), (), ()),
    )


def test_questions_take_turns_whoever_is_louder() -> None:
    """By scores alone, the second question would get what the first one leaves: nothing."""
    shelf = Shelf(LONG, SECOND, chunker="recursive:16/0")
    long, other = by_document(shelf)
    loud = scored(*((chunk, 0.9) for chunk in long))
    quiet = scored(*((chunk, 0.3) for chunk in other))
    pack = many(shelf, loud, quiet, max_tokens=60)
    first, second = pack.trace.coverage
    assert pack.query == "1\n2"
    assert first.hits >= 1
    assert second.hits >= 1
    assert abs(first.tokens - second.tokens) <= 40
    assert not set(first.markers) & set(second.markers)
    by_score = packed(shelf, [*loud, *quiet], max_tokens=60)
    told = [chunk for chunk in by_score.selected_chunks if chunk.document_id == "second"]
    assert not told


def test_a_small_budget_has_a_sentence_for_each_question() -> None:
    """A first hit that would take all of the room is shortened while others wait for theirs."""
    documents = [
        Document(id=str(number), text=" ".join(f"{number} {one}" for one in SENTENCES * 2))
        for number in (1, 2, 3)
    ]
    shelf = Shelf(*documents, chunker="document")
    asked = [scored((chunk, 0.9)) for (chunk,) in by_document(shelf)]
    pack = many(shelf, *asked, max_tokens=150)
    assert [served.hits for served in pack.trace.coverage] == [1, 1, 1]
    assert pack.tokens <= 150
    assert len(pack.trace.truncated) == 3


def test_what_two_questions_found_is_there_once_and_serves_both() -> None:
    shelf = Shelf(LONG, SECOND, chunker="recursive:16/0")
    long, other = by_document(shelf)
    pack = many(shelf, scored((long[0], 0.9)), scored((long[0], 0.5), (other[4], 0.4)))
    first, second = pack.trace.coverage
    assert first.markers[0] == second.markers[0] == 1
    names = [chunk.chunk_id for chunk in pack.selected_chunks]
    assert len(names) == len(set(names))
    assert (first.hits, first.found, second.hits, second.found) == (1, 1, 2, 2)


def test_a_copy_serves_the_question_that_found_it_elsewhere() -> None:
    """The first question has the text too low for evidence, the second one another copy of it."""
    copy = LONG.model_copy(update={"id": "copy"})
    shelf = Shelf(LONG, copy, OTHER, chunker="document")
    (long,), (same,), (other,) = by_document(shelf)
    pack = many(shelf, scored((other, 0.9), (long, 0.1)), scored((same, 0.9)), stop=True)
    assert [len(served.markers) for served in pack.trace.coverage] == [1, 1]
    assert [citation.document_id for citation in pack.citations] == ["other", "copy"]


def test_evidence_stops_for_each_question_by_itself() -> None:
    shelf = Shelf(LONG, SECOND, chunker="recursive:16/0")
    long, other = by_document(shelf)
    strong = scored((long[0], 0.9), (long[4], 0.1))
    weak = scored((other[0], 0.3), (other[4], 0.1))
    pack = many(shelf, strong, weak, [], stop=True)
    ids = {chunk.chunk_id for chunk in pack.selected_chunks}
    assert {long[0].id, other[0].id} <= ids
    assert not {long[4].id, other[4].id} & ids
    assert pack.trace.coverage[2] == Coverage(query="3")
    notes = pack.trace.notes
    assert any(note.startswith("1: stopped at a score of 0.27") for note in notes)
    assert any(note.startswith("2: no passage fits the question closely") for note in notes)
    assert "3: nothing was found" in notes


def test_by_roles_questions_alternate() -> None:
    shelf = Shelf(LONG, SECOND, chunker="recursive:16/0")
    long, other = by_document(shelf)
    found = (hits(long[:3]), hits(other[:3]))
    pack = many(shelf, *found, select="roles", neighbor_same_page=0, max_tokens=50)
    kept = [chunk.document_id for chunk in pack.selected_chunks]
    assert kept[:2] == ["long", "second"]
    assert [served.hits for served in pack.trace.coverage] == [1, 1]


@pytest.mark.parametrize(("best", "least"), [(0.44, 0.374), (0.45, 0.2), (0.9, 0.27)])
def test_where_evidence_stops_by_default(best: float, least: float) -> None:
    """Below .45 only what is close to the best counts; else .3 of it, and never less than .2."""
    assert StopRule().least(best) == pytest.approx(least)


def test_the_hit_with_the_best_score_is_first_whatever_its_rank() -> None:
    """Diversity may have put another one before it."""
    shelf = Shelf(LONG, OTHER, chunker="recursive:16/0")
    long, other = by_document(shelf)
    results = scored((other[1], 0.3), (other[4], 0.25), (long[1], 0.8))
    (first, *_) = packed(shelf, results).selected_chunks
    assert first.chunk_id == long[1].id
