"""Results of a search: a ranked list of hits, or a bundle of documents and evidence.

`score` is always in [0, 1] and higher is better; `rank` counts from 1. The scores of the stages
are kept beside it, on their own scales, so that a score can be explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, SupportsIndex, get_args, overload

from pydantic import Field

from lagotto import documents
from lagotto._internal.display import Row, as_html, as_text, counted, excerpt
from lagotto.documents import Document, DocumentRef, Location, Record, Span

Score = float
Leg = Literal["semantic", "text", "fuzzy", "exact"]
"""The recall paths of a query: vectors, full text, spelling corrections, verbatim phrases."""
LEGS: tuple[Leg, ...] = get_args(Leg)

COPIES_NAMED = 5
"""Copies that a citation names: a text that a hundred files have must not cost a hundred names."""

SnippetFrom = Literal["doc", "chunk", "unknown"]


class LegScore(Record):
    """One leg's score for a hit, and its contribution to the fused score.

    `rank` is the hit's rank in the leg's own list; it is None for a hit that another leg found
    and that this leg only scored afterwards. `weight` times `normalised` is `contribution`: the
    contributions of all legs add up to the fused score. `damping` is the factor by which the weight
    was lowered because the leg's best match is weak, 1 if it was not.
    """

    score: Score
    rank: int | None = Field(default=None, ge=1)
    normalised: Score = 0.0
    weight: float = 0.0
    contribution: Score = 0.0
    damping: float = 1.0


class ScoreBreakdown(Record):
    """The score of every stage for a hit; None for a stage that did not run.

    Also None for a leg that has no score for the hit: with `scoring.fill` every leg scores what any
    of them found, without it only its own list.
    `fused` is on the scale of the formula that was asked for (reciprocal ranks stay below 0.1),
    `fused_score` the same in [0, 1]; of reciprocal ranks, `fused_ends` are the values that are 0
    and 1 on that scale, the least and the greatest that a candidate could have. `boosted` is
    `fused_score` times the factors of `boosts`, divided by `boost_scale`: the best of these
    products if that is above 1. `rerank` is on the
    reranker's own scale, `rerank_score` in [0, 1]. If the two are blended, the hit has `1 -
    rerank_share` of the fused score and `rerank_share` of `rerank_mapped`, which is `rerank` on the
    scale of the fused scores.
    """

    semantic: LegScore | None = None
    text: LegScore | None = None
    fuzzy: LegScore | None = None
    exact: LegScore | None = None
    fused: Score | None = None
    fused_score: Score | None = None
    fused_ends: tuple[float, float] | None = None
    boosts: dict[str, float] = Field(default_factory=dict)
    boost_scale: float = 1.0
    boosted: Score | None = None
    rerank: Score | None = None
    rerank_score: Score | None = None
    rerank_mapped: Score | None = None
    rerank_share: float | None = None

    def legs(self) -> dict[Leg, LegScore]:
        """The scores of the legs that have one."""
        scores = {leg: getattr(self, leg) for leg in LEGS}
        return {leg: score for leg, score in scores.items() if score is not None}


class RetrievalResult(Location):
    """A hit: a passage of a document, with its score and its location.

    A child may come with its parent (`parent_content`), with the beginning of it (`section`), or
    have been replaced by it: then `child_id` is the chunk that was found. `evidence` is the span of
    `content` in which a reranker saw the answer, and `answerable` whether it saw one. `also_in` are
    the names of other documents with this text, if copies are shown once.
    """

    rank: int = Field(ge=1)
    score: Score = Field(ge=0, le=1)
    content: str
    chunk_id: str
    document_id: str
    document_title: str | None
    document_source: str
    document_kind: str = "text"
    collection: str
    language: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    parent_id: str | None = None
    parent_content: str | None = None
    section: str | None = None
    child_id: str | None = None
    answerable: bool | None = None
    evidence: tuple[int, int] | None = None
    also_in: tuple[str, ...] = ()
    breakdown: ScoreBreakdown = ScoreBreakdown()

    @property
    def citation(self) -> str:
        """`Doc: ... | Page: ... | Section: ...`, with the parts that are known."""
        return with_copies(format_citation(self.document_name, self), self.also_in)

    @property
    def document_ref(self) -> DocumentRef:
        """The name of its document."""
        return DocumentRef(self.collection, self.document_id)

    @property
    def document_name(self) -> str:
        """What a citation calls the document: code by its path, a row by its file as well."""
        named = named_document(
            self.document_title, self.document_source, self.document_kind, self.metadata
        )
        return named or self.document_id

    def __repr__(self) -> str:
        name = excerpt(self.document_title or self.document_source or self.document_id, most=24)
        text = excerpt(self.content, most=32)
        return f"RetrievalResult({self.rank}, {self.score:.2f}, {name!r}, {text!r})"

    def __str__(self) -> str:
        return as_text([_row(self)], first=self.rank)

    def explain(self) -> str:
        """Return how the score is made up, in numbers that add up."""
        lines, sums = [f"{self.rank}. {self.score:.4f}  {self.citation}"], self.breakdown
        lines += [_explained(leg, score) for leg, score in sums.legs().items() if score.weight]
        if sums.fused_score is not None:
            scale = ""
            if sums.fused_ends is not None:
                scale = ", on a scale from {:.4f} to {:.4f}".format(*sums.fused_ends)
            lines.append(f"   fused {sums.fused_score:.4f} (formula {sums.fused:.4f}{scale})")
        lines += [f"   boost {name} x {factor:.4f}" for name, factor in sums.boosts.items()]
        if sums.boosted is not None:
            scale = f" / {sums.boost_scale:.4f}" if sums.boost_scale > 1 else ""
            lines.append(f"   boosted {sums.boosted:.4f} = {sums.fused_score:.4f} x boosts{scale}")
        if sums.rerank_score is not None:
            lines.append(f"   reranked {sums.rerank_score:.4f} (own scale {sums.rerank:.4f})")
        if sums.rerank_share is not None:
            share, own = sums.rerank_share, sums.rerank_mapped
            fused = sums.fused_score if sums.boosted is None else sums.boosted
            lines.append(f"   blended {1 - share:.2f} x {fused:.4f} + {share:.2f} x {own:.4f}")
        if self.child_id:
            lines.append(f"   parent of {self.child_id}, with its score")
        return "\n".join(lines)


def _explained(leg: Leg, score: LegScore) -> str:
    rank = f"rank {score.rank}" if score.rank else "scored, not in its list"
    return (
        f"   {leg:<8} {score.score:8.4f} ({rank}) -> {score.normalised:.4f} x {score.weight:.4f}"
        f" = {score.contribution:.4f}"
        f"{f' (weight damped by {score.damping:.2f})' if score.damping < 1 else ''}"
    )


def named_document(title: str | None, source: str, kind: str, metadata: Mapping[str, Any]) -> str:
    """The name of a document in citations; empty if it has neither title nor source.

    Code is called by the path that its metadata have: below the folder that was read.
    """
    if kind == documents.CODE and source:
        path = metadata.get("path")
        return path if path and isinstance(path, str) else source
    if kind == documents.ROW and source:
        file = PurePosixPath(source).name
        return f"{title} ({file})" if title else file
    return title or source


def names_of_copies(document: Document, copies: Iterable[Document]) -> tuple[str, ...]:
    """What a citation calls the copies of a document: one of the same name, by its source."""

    def name(one: Document) -> str:
        return named_document(one.title, one.source, one.kind, one.metadata) or one.id

    own = name(document)
    pairs = ((name(copy), copy.source or copy.id) for copy in copies)
    return tuple(dict.fromkeys(source if called == own else called for called, source in pairs))


def with_copies(citation: str, also_in: Sequence[str]) -> str:
    """A citation that names the other documents with the same text, or the first of many."""
    if not also_in:
        return citation
    more = len(also_in) - COPIES_NAMED
    return (
        f"{citation} | Also in: {', '.join(also_in[:COPIES_NAMED])}"
        f"{f' and {more} more' if more > 0 else ''}"
    )


def cited_row(kind: str, metadata: Mapping[str, Any]) -> tuple[int, int] | None:
    """The row of its file that a document is, if it is one."""
    number = metadata.get("row") if kind == documents.ROW else None
    return (number, number) if isinstance(number, int) and number > 0 else None


def format_citation(document: str, location: Location, *, title: str | None = None) -> str:
    """The document and the location of a passage in one line, for people.

    `title` is for a document that is named by its id.
    """
    parts = [f"Doc: {document}"]
    ranges = {
        "Page": location.pages,
        "Lines": location.lines,
        "Rows": location.row_range,
        "Items": location.item_range,
    }
    for name, numbers in ranges.items():
        if numbers:
            first, last = numbers
            parts.append(f"{name}: {first}" if first == last else f"{name}: {first}-{last}")
    if location.heading_path:
        section = f"Section: {' > '.join(location.heading_path)}"
        parts.insert(1 + bool(location.pages), section)
    if title:
        parts.append(f"Title: {title}")
    return " | ".join(parts)


class Results(list[RetrievalResult]):
    """Hits, best first, with the `stats` of their search.

    `candidates` are the hits that a reranker was given, in their order before; none without one.
    """

    def __init__(
        self,
        hits: Iterable[RetrievalResult] = (),
        *,
        candidates: Sequence[RetrievalResult] = (),
        stats: RetrievalStats | None = None,
    ) -> None:
        super().__init__(hits)
        self.candidates = tuple(candidates)
        self.stats = stats or RetrievalStats()

    @property
    def degraded(self) -> tuple[str, ...]:
        """What could not be used in the search."""
        return self.stats.degraded

    @overload
    def __getitem__(self, index: SupportsIndex) -> RetrievalResult: ...

    @overload
    def __getitem__(self, index: slice) -> Results: ...

    def __getitem__(self, index: SupportsIndex | slice) -> RetrievalResult | Results:
        if isinstance(index, slice):
            return Results(super().__getitem__(index), stats=self.stats)
        return super().__getitem__(index)

    def __repr__(self) -> str:
        best = f", best: {self[0]!r}" if self else ""
        return f"Results({counted(len(self), 'hit')}{best})"

    def __str__(self) -> str:
        first = self[0].rank if self else 1
        return as_text(map(_row, self), first=first, notes=self.degraded, empty="no hits")

    def _repr_html_(self) -> str:
        return as_html(("score", "cited", "passage"), map(_row, self), notes=self.degraded)


def _row(hit: RetrievalResult) -> Row:
    return f"{hit.score:.2f}", hit.citation, excerpt(hit.content)


class CandidateItem(Record):
    """A document that may contain the answer, to be shown as a source."""

    item_id: str
    collection: str = documents.DEFAULT_COLLECTION
    language: str | None = None
    kind: str
    source: str
    source_ref: str | None = None
    title: str | None = None
    summary: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    score: Score
    score_text: Score | None = None
    score_vec: Score | None = None
    rank_text: int | None = None
    rank_vec: int | None = None
    snippet: str | None = None
    snippet_highlights: tuple[Span, ...] = ()
    snippet_from: SnippetFrom = "unknown"


class EvidenceChunk(Record):
    """A passage that supports an answer, to be put into a prompt."""

    item_id: str
    chunk_id: str | None = None
    text: str
    start_idx: int | None = None
    end_idx: int | None = None
    token_count: int | None = None
    score: Score
    score_text: Score | None = None
    score_vec: Score | None = None
    heading_path: list[str] | None = None
    anchors: dict[str, Any] | None = None

    @property
    def collection(self) -> str:
        """The collection of its document."""
        return str((self.anchors or {}).get("collection", documents.DEFAULT_COLLECTION))

    @property
    def location(self) -> Location:
        """Its location in the document."""
        anchors = self.anchors or {}
        return Location(
            start=self.start_idx or 0,
            end=self.end_idx or 0,
            pages=anchors.get("pages"),
            heading_path=tuple(self.heading_path or ()),
            row_range=anchors.get("rows"),
            item_range=anchors.get("items"),
            lines=anchors.get("lines"),
        )


class ScoredCandidate(Location):
    """A candidate before ranking, with every leg's score for it: enough to fuse and show it again.

    What fusion needs besides is in `RetrievalStats.fusion`.
    """

    collection: str
    document_id: str
    chunk_id: str
    document_title: str | None = None
    document_source: str = ""
    document_source_ref: str | None = None
    document_kind: str = "text"
    text: str = ""
    breakdown: ScoreBreakdown


class TracedCandidate(Record):
    """A passage as the legs found it, before any later stage; `score` is the fused one."""

    chunk_id: str
    collection: str
    document_id: str
    rank: int
    score: Score


class FusionInputs(Record):
    """What the fused scores depend on besides the scores of the legs: enough to repeat the fusion.

    `weights` are those asked for, for the type of the query. `factors` are what the query made of
    them, of the legs that were asked: an alphabet that the embedder does not know, misspelt words.
    `damping` are factors that depend on what the legs found. `floor` is the cosine of unrelated
    texts, `depth` the number of chunks that a leg could bring.

    `exact` says where the weight of the exact leg comes from: it was `given`, it is the `sum` of
    the others, or the wording is only mentioned, and just the weight was taken that boosts its best
    holder to its `boosted_rank`. `holders` are then the chunks that hold it, with their ranks in
    that leg, 0 for none.
    """

    weights: dict[Leg, float]
    factors: dict[Leg, float]
    damping: dict[Leg, float] = Field(default_factory=dict)
    floor: float = 0.0
    depth: int | None = None
    exact: Literal["given", "sum", "boosted"] | None = None
    holders: dict[str, int] = Field(default_factory=dict)
    boosted_rank: int | None = None


class RetrievalStats(Record):
    """Statistics of a search: milliseconds per stage, counts, parameters, and degradations.

    `corrections` has the misspelt words of the query, with the index terms that were searched for
    instead, and `synonyms` those words of the query that have some. Without `debug` only these and
    `degraded` are set. The stages of `timing_ms`,
    `other` among them, add up to its `total`. `candidates` are all that the legs brought, by their
    fused scores, if `explain` asks for them, and `fusion` is what else went into these; it is None
    for chunks made at query time.
    """

    timing_ms: dict[str, float] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)
    params: dict[str, Any] = Field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    corrections: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    synonyms: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    candidates: tuple[ScoredCandidate, ...] = ()
    fusion: FusionInputs | None = None
    trace_id: str | None = None


def merged_stats(stats: Iterable[RetrievalStats]) -> RetrievalStats:
    """The statistics of several searches as one: their times and counts added up."""
    first, *rest = stats
    for other in rest:
        changes = {
            "timing_ms": _summed(first.timing_ms, other.timing_ms),
            "counts": _summed(first.counts, other.counts),
            "degraded": tuple(dict.fromkeys((*first.degraded, *other.degraded))),
            "corrections": first.corrections | other.corrections,
            "synonyms": first.synonyms | other.synonyms,
            "candidates": first.candidates + other.candidates,
            "fusion": None,
        }
        first = first.model_copy(update=changes)
    return first


def _summed(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


class RetrievalBundle(Record):
    """Documents as sources, chunks as evidence, and how they were found."""

    candidates: list[CandidateItem]
    evidence: list[EvidenceChunk]
    stats: RetrievalStats = RetrievalStats()

    def __repr__(self) -> str:
        documents, passages = len(self.candidates), len(self.evidence)
        return f"RetrievalBundle({counted(documents, 'document')}, {counted(passages, 'passage')})"

    def __str__(self) -> str:
        return as_text(self._rows(), notes=self.stats.degraded, empty="no documents")

    def _repr_html_(self) -> str:
        return as_html(("score", "document", "snippet"), self._rows(), notes=self.stats.degraded)

    def _rows(self) -> list[Row]:
        return [
            (
                f"{item.score:.2f}",
                item.title or item.source or item.item_id,
                excerpt(item.snippet or ""),
            )
            for item in self.candidates
        ]
