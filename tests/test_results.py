from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lagotto._internal.display import EXCERPT
from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document, Location
from lagotto.results import (
    CandidateItem,
    EvidenceChunk,
    LegScore,
    Results,
    RetrievalBundle,
    RetrievalResult,
    RetrievalStats,
    ScoreBreakdown,
    format_citation,
    merged_stats,
)
from lagotto.testing.hash_embedder import HashEmbedder

HIT: dict[str, Any] = {
    "rank": 1,
    "score": 0.8,
    "content": "text",
    "chunk_id": "c",
    "document_id": "d",
    "document_title": "Title",
    "document_source": "/a.pdf",
    "collection": "default",
    "start": 0,
    "end": 4,
}


@pytest.mark.parametrize(
    ("parts", "citation"),
    [
        ({}, "Doc: a"),
        ({"pages": (3, 3)}, "Doc: a | Page: 3"),
        (
            {"pages": (3, 4), "heading_path": ("One", "Two")},
            "Doc: a | Page: 3-4 | Section: One > Two",
        ),
        (
            {"heading_path": ("One",), "row_range": (2, 9), "item_range": (1, 1)},
            "Doc: a | Section: One | Rows: 2-9 | Items: 1",
        ),
    ],
)
def test_citations(parts: dict[str, Any], citation: str) -> None:
    assert format_citation("a", Location(start=0, end=1, **parts)) == citation


def test_a_hit_cites_the_best_name_it_has() -> None:
    assert RetrievalResult(**HIT).citation == "Doc: Title"
    assert RetrievalResult(**{**HIT, "document_title": None}).citation == "Doc: /a.pdf"
    bare = {**HIT, "document_title": None, "document_source": ""}
    assert RetrievalResult(**bare).citation == "Doc: d"


@pytest.mark.parametrize("change", [{"score": 1.2}, {"score": -0.1}, {"rank": 0}, {"x": 1}])
def test_impossible_hits_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RetrievalResult(**{**HIT, **change})


def test_results_survive_json() -> None:
    breakdown = ScoreBreakdown(semantic=LegScore(score=0.5, rank=2), text=LegScore(score=7.1))
    hit = RetrievalResult(**HIT, breakdown=breakdown)
    assert RetrievalResult.model_validate_json(hit.model_dump_json()) == hit
    bundle = RetrievalBundle(
        candidates=[CandidateItem(item_id="d", kind="pdf", source="/a.pdf", score=0.8)],
        evidence=[EvidenceChunk(item_id="d", text="text", score=0.8)],
    )
    assert RetrievalBundle.model_validate_json(bundle.model_dump_json()) == bundle


class TestDisplay:
    hits = Results(
        [RetrievalResult(**{**HIT, "content": "One\n two <b>three</b>. " * 20, "pages": (3, 3)})],
        stats=RetrievalStats(degraded=("text: no index",)),
    )

    def test_a_list_prints_a_citation_and_an_excerpt_for_each_hit(self) -> None:
        first, second, third = str(self.hits).splitlines()
        assert first == " 1. 0.80  Doc: Title | Page: 3"
        assert second.startswith("    One two <b>three</b>. One two")
        assert len(second) == 4 + EXCERPT
        assert second.endswith("…")
        assert third == "note: text: no index"

    def test_a_part_of_a_list_and_a_single_hit_print_like_the_list(self) -> None:
        hits = Results([RetrievalResult(**{**HIT, "rank": rank}) for rank in (1, 2, 3)])
        shown = str(hits).splitlines()
        assert str(hits[1:]).splitlines() == shown[2:]
        assert str(hits[2]).splitlines() == shown[4:]
        assert self.hits[:1].degraded == ("text: no index",)

    def test_no_hits_are_said(self) -> None:
        assert str(Results()) == "no hits"
        degraded = Results(stats=RetrievalStats(degraded=("text: no index",)))
        assert str(degraded) == "no hits\nnote: text: no index"
        assert str(RetrievalBundle(candidates=[], evidence=[])) == "no documents"

    def test_notebooks_get_a_table_in_which_texts_are_escaped(self) -> None:
        html = self.hits._repr_html_()
        assert "<td>0.80</td><td>Doc: Title | Page: 3</td><td>One two &lt;b&gt;three" in html
        assert "<b>" not in html
        assert "<p>note: text: no index</p>" in html
        assert "<th>score</th><th>cited</th><th>passage</th>" in html

    def test_a_bundle_prints_its_documents(self) -> None:
        item = CandidateItem(
            item_id="d", kind="text", source="a.txt", score=0.5, snippet="A <i>snippet</i>"
        )
        bundle = RetrievalBundle(candidates=[item], evidence=[])
        assert str(bundle) == " 1. 0.50  a.txt\n    A <i>snippet</i>"
        html = bundle._repr_html_()
        assert "<td>a.txt</td><td>A &lt;i&gt;snippet" in html
        assert "<th>score</th><th>document</th><th>snippet</th>" in html
        item = CandidateItem(item_id="d", kind="text", source="", score=0.5)
        assert str(RetrievalBundle(candidates=[item], evidence=[])).strip() == "1. 0.50  d"


def test_an_explanation_tells_ranks_apart_from_scores_alone() -> None:
    listed = LegScore(score=0.5, rank=2, normalised=0.5, weight=0.5, contribution=0.25)
    filled = LegScore(score=7.1, normalised=0.8, weight=0.5, contribution=0.4)
    breakdown = ScoreBreakdown(semantic=listed, text=filled)
    said = RetrievalResult(**HIT, breakdown=breakdown).explain().splitlines()
    assert said[1:] == [
        "   semantic   0.5000 (rank 2) -> 0.5000 x 0.5000 = 0.2500",
        "   text       7.1000 (scored, not in its list) -> 0.8000 x 0.5000 = 0.4000",
    ]


def test_rows_are_cited_by_their_number_and_file(tmp_path: Path) -> None:
    rows = tmp_path / "dogs.csv"
    rows.write_text("id,name,text\nx,Rex,He digs for truffles.\ny,Bo,She sleeps all day.\n")
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        kb.add(rows)
        hit = kb.retrieve("sleeps", mode="keyword")[0]
        assert hit.citation == "Doc: Bo (dogs.csv) | Rows: 2"
        (citation, *_) = kb.context("sleeps", mode="keyword").citations
        assert citation.label == hit.citation
        assert kb.resolve(citation).label == hit.citation
        assert kb.search("sleeps", mode="keyword").evidence[0].location.row_range == (2, 2)


def test_code_is_cited_by_path_and_lines(tmp_path: Path) -> None:
    code = tmp_path / "dogs.py"
    code.write_text(
        "import os\n\n\ndef dig():\n    return 'truffles'\n\n\ndef sleep():\n    pass\n"
    )
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder(), chunker="code:16/0") as kb:
        kb.add(code)
        hit = kb.retrieve("truffles", mode="keyword")[0]
        assert hit.citation == "Doc: dogs.py | Section: dig | Lines: 1-5"
        assert kb.context("truffles", mode="keyword").citations[0].lines == (1, 5)
        assert kb.search("truffles", mode="keyword").evidence[0].location.lines == (1, 5)


def test_identical_texts_are_told_apart_by_their_sources(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("The same words stand here.")
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        kb.add(tmp_path / "one.txt", tmp_path / "two.txt")
        kb.add(Document(text="No source."), Document(text="No source."))
        assert kb.info().documents == 3
        hits = kb.retrieve("same words", mode="keyword")
        assert {hit.citation for hit in hits} == {"Doc: one", "Doc: two"}


def test_statistics_of_several_searches_are_one() -> None:
    first = RetrievalStats(timing_ms={"total": 1.0}, degraded=("a", "b"), trace_id="t")
    other = RetrievalStats(timing_ms={"total": 2.0, "plan": 1.0}, degraded=("b", "c"))
    merged = merged_stats([first, other])
    assert merged.timing_ms == {"total": 3.0, "plan": 1.0}
    assert (merged.degraded, merged.trace_id) == (("a", "b", "c"), "t")
