"""The stages after fusion: the total order, reranking, parents, diversity, the cited section."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagotto import documents
from lagotto._internal.concurrency import checkpoint
from lagotto.documents import Chunk, ChunkSection, Document, DocumentRef, Span, Vectors
from lagotto.errors import RerankError, StoreError
from lagotto.prefs import ParentsPrefs, RetrievalPrefs
from lagotto.rerankers import base as rerankers
from lagotto.rerankers.base import Candidate, Judgement, Reranker
from lagotto.results import cited_row
from lagotto.retrieval.explain import Diagnostics, leg_scores
from lagotto.retrieval.fusion import Candidates, Scores
from lagotto.stores.base import Passage, View
from lagotto.terms import compounds, content_terms, index_terms, query_terms, term_worth

if TYPE_CHECKING:
    from lagotto.retrieval.late import LateChunkSource

Rows = NDArray[np.int64]
"""0-based positions among candidates."""

ChunkSource: TypeAlias = "View | LateChunkSource"
"""Where the chunks of candidates are read: a view of the store, or chunks made just now."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage on its way through the stages, with its score so far.

    `row` is its position among the candidates. `child` is the chunk that was found, if the
    passage is its parent now. `rerank` is on the reranker's own scale, `rerank_score` in [0, 1];
    of a blend, `rerank_mapped` is on the scale of the fused scores, with the weight `rerank_share`.
    `cited` is the section that it is cited by, once known, `copies` other documents with its text.
    """

    passage: Passage
    score: float
    row: int
    best_rank: int
    child: Chunk | None = None
    parent: Chunk | None = None
    section: str | None = None
    rerank: float | None = None
    rerank_score: float | None = None
    rerank_mapped: float | None = None
    rerank_share: float | None = None
    answerable: bool | None = None
    evidence: Span | None = None
    cited: ChunkSection | None = None
    copies: tuple[Document, ...] = ()

    @property
    def leaf(self) -> Chunk:
        return self.child or self.passage.chunk

    @property
    def location_fields(self) -> dict[str, Any]:
        """The location that the hit is cited by."""
        fields = self.passage.chunk.location_fields()
        if self.cited is not None:
            fields |= self.cited.location_fields()
        document = self.passage.document
        if row := cited_row(document.kind, document.metadata):
            fields["row_range"] = row
        return fields


def best_rows(
    candidates: Candidates, scores: Scores, *, count: int, rows: Rows | None = None
) -> Rows:
    """The best `count`, of `rows` only if given, and all that tie with the last of them."""
    best_ranks = candidates.best_ranks
    order = np.lexsort((best_ranks, -scores))
    if rows is not None:
        order = order[np.isin(order, rows)]
    if len(order) > count:
        last = order[count - 1]
        beyond = (scores[order] < scores[last]) | (
            (scores[order] == scores[last]) & (best_ranks[order] > best_ranks[last])
        )
        order = order[~beyond]
    return order


def rank(
    passages: Iterable[Passage], rows: Rows, candidates: Candidates, scores: Scores, *, count: int
) -> list[Ranked]:
    """The best `count` of the passages, which are of `rows`.

    Ordered by score, best rank in a leg, document, offset. Keys depend on the order in which
    documents were added, so ties are broken by the passages.
    """
    best_ranks = candidates.best_ranks
    row_of = dict(zip(candidates.keys[rows].tolist(), rows.tolist(), strict=True))
    pairs = ((passage, row_of[passage.key]) for passage in passages)
    ranked = (Ranked(each, float(scores[row]), row, int(best_ranks[row])) for each, row in pairs)
    return sorted(ranked, key=total_order)[:count]


def total_order(item: Ranked) -> tuple[float, int, str, str, str, str, int, str]:
    """The sort key of hits: score, best rank in a leg, document, offset in it."""
    chunk = item.passage.chunk
    tie = (*document_order(item.passage.document), chunk.start, chunk.id)
    return (-item.score, item.best_rank, *tie)


def document_order(document: Document) -> tuple[str, str, str, str]:
    """The sort key of documents that tie: by their sources, as ids may be hashes of these.

    The files of a folder keep their order when the folder is moved; hashes of their paths do not.
    """
    return document.collection, document.source, document.source_ref or "", document.id


def above(ranked: Sequence[Ranked], threshold: float | None) -> list[Ranked]:
    return [item for item in ranked if threshold is None or item.score >= threshold]


def document_of(item: Ranked) -> DocumentRef:
    return item.passage.document.ref


async def rerank(
    reranker: Reranker,
    ranked: Sequence[Ranked],
    candidates: Candidates,
    prefs: RetrievalPrefs,
    diagnostics: Diagnostics,
) -> list[Ranked]:
    """All hits that it judges, in the reranker's order; in their own, and noted, if it fails.

    Those that it did not reach in time keep their score, and come last unless scores are blended.
    """
    seen = [_candidate(item, candidates, prefs.rerank.max_text_chars) for item in ranked]
    judgement = Judgement(None)
    with diagnostics.does_without("reranker", "failed, the fused order stands", RerankError):
        judgement = await _judgement(reranker, seen, prefs)
    for note in judgement.notes:
        diagnostics.note("reranker", note)
    if judgement.verdicts is None:
        return list(ranked)
    if judgement.unjudged:
        diagnostics.note(
            "reranker",
            f"read {len(seen) - len(judgement.unjudged)} of {len(seen)} passages within "
            f"{prefs.rerank.max_ms} ms, the others keep their fused order",
        )
    scale = reranker.scale
    keeps = scale.order_only or scale.blended
    judged = [
        replace(
            item,
            score=item.score if keeps else scale.unit(verdict.score),
            rerank=verdict.score,
            rerank_score=scale.unit(verdict.score),
            answerable=verdict.answerable,
            evidence=verdict.evidence,
        )
        for item, verdict in zip(ranked, judgement.verdicts, strict=True)
        if verdict is not None
    ]
    late = [ranked[index] for index in sorted(judgement.unjudged)]
    if not scale.blended:
        judged.sort(key=lambda item: -order_score(item))  # stable: equal ones keep their order
        return judged + late
    return sorted([*_blended(judged, prefs.query_text), *late], key=total_order)


async def _judgement(
    reranker: Reranker, seen: Sequence[Candidate], prefs: RetrievalPrefs
) -> Judgement:
    """What the reranker says in time; RerankError if it breaks its contract."""
    max_ms, most = prefs.rerank.max_ms, prefs.rerank.candidates
    seconds = None if max_ms is None else max_ms / 1000
    rerank_top = getattr(reranker, "rerank_top", None)
    if isinstance(most, int) and rerank_top is not None:
        request = rerank_top(prefs.query_text, seen, top_n=max(most, len(seen)))
    else:
        request = reranker.rerank(prefs.query_text, seen)
    try:
        with rerankers.time_limit(seconds):
            async with asyncio.timeout(None if rerankers.stops_in_time(reranker) else seconds):
                judgement: Judgement = await request
    except TimeoutError as exc:
        raise RerankError(f"{reranker.id} took more than {max_ms} ms") from exc
    verdicts = judgement.verdicts
    if verdicts is not None and len(verdicts) != len(seen):
        raise RerankError(f"{reranker.id} gave {len(verdicts)} verdicts for {len(seen)} passages")
    if not all(math.isfinite(verdict.score) for verdict in verdicts or () if verdict is not None):
        raise RerankError(f"{reranker.id} gave a score that is not a finite number")
    return judgement


def verdict_score(item: Ranked) -> float:
    """The reranker's own score of a hit in [0, 1], or its fused score without a verdict."""
    return item.score if item.rerank_score is None else item.rerank_score


def order_score(item: Ranked) -> float:
    """What hits are sorted by after a reranker: its own score, or what it was blended to."""
    return item.score if item.rerank_share is not None else verdict_score(item)


def _blended(judged: Sequence[Ranked], query: str) -> list[Ranked]:
    share = rerankers.blend_share(query)
    own = [item.rerank for item in judged if item.rerank is not None]
    on_scale = rerankers.mapped(own, [item.score for item in judged]) if judged else []
    return [
        replace(
            item,
            score=min(1.0, max(0.0, (1 - share) * item.score + share * value)),
            rerank_mapped=value,
            rerank_share=share,
        )
        for item, value in zip(judged, on_scale, strict=True)
    ]


def _candidate(item: Ranked, candidates: Candidates, max_chars: int | None) -> Candidate:
    chunk, document = item.passage.chunk, item.passage.document
    return Candidate(
        id=chunk.id,
        text=(chunk.text or document.title or "")[:max_chars],
        score=item.score,
        title=document.title if chunk.text else None,
        heading_path=chunk.heading_path,
        context=chunk.context,
        language=document.language,
        legs=leg_scores(item.row, candidates),
    )


async def resolve_parents(
    source: ChunkSource, ranked: Sequence[Ranked], prefs: ParentsPrefs, diagnostics: Diagnostics
) -> list[Ranked]:
    """Replace or accompany hits with their parents; unchanged, and noted, if they can't be read."""
    children = [item.passage.chunk for item in ranked if item.passage.chunk.parent_id]
    if prefs.mode == "none" or not children:
        return list(ranked)
    parents: Mapping[str, Chunk] = {}
    with diagnostics.does_without("parents", "not read, children stand alone", StoreError):
        parents = await source.parents(children)
    if prefs.mode == "replace":
        return _replaced(ranked, parents)
    pairs = [(item, parents.get(item.passage.chunk.parent_id or "")) for item in ranked]
    if prefs.mode == "attach":
        return [replace(item, parent=parent) if parent else item for item, parent in pairs]
    most = prefs.section_chars
    return [replace(item, section=parent.text[:most]) if parent else item for item, parent in pairs]


def _replaced(ranked: Sequence[Ranked], parents: Mapping[str, Chunk]) -> list[Ranked]:
    """Children become their parents, with the child's score; of several the best one stays."""
    by_chunk: dict[tuple[str, str], Ranked] = {}
    for item in ranked:
        child = item.passage.chunk
        parent = parents.get(child.parent_id or "")
        if parent is not None:
            passage = replace(item.passage, chunk=parent)
            item = replace(item, passage=passage, child=child, evidence=None)
        by_chunk.setdefault((child.collection, item.passage.chunk.id), item)
    return list(by_chunk.values())


def copy_key(chunk: Chunk) -> str:
    """What makes chunks of several documents copies; a mere title has no text to copy."""
    return " ".join(chunk.text.split()) or "/".join((*chunk.document_ref, chunk.id))


def without_copies(ranked: Iterable[Ranked]) -> list[Ranked]:
    """The hits without those whose text a better one of another document has."""
    unique: list[Ranked] = []
    firsts: dict[str, int] = {}
    for item in ranked:
        at = firsts.setdefault(copy_key(item.passage.chunk), len(unique))
        if at == len(unique) or document_of(unique[at]) == document_of(item):
            unique.append(item)
        else:
            documents = {one.ref: one for one in (*unique[at].copies, item.passage.document)}
            unique[at] = replace(unique[at], copies=tuple(documents.values()))
    return unique


Item = TypeVar("Item")


def cap(items: Iterable[Item], *, key: Callable[[Item], Hashable], most: int) -> list[Item]:
    """The items in their order, but of each key only the first `most`."""
    seen: Counter[Hashable] = Counter()
    passing = []
    for item in items:
        name = key(item)
        seen[name] += 1
        if seen[name] <= most:
            passing.append(item)
    return passing


def mmr(scores: Scores, vectors: Vectors, *, share: float, count: int) -> list[int]:
    """Indices of the `count` items to show, by maximal marginal relevance.

    The best score comes first; each next item has the greatest `share * score - (1 - share) *
    likeness`, where likeness is its greatest cosine with an item that was chosen before. Of equals
    the first is taken, so a share of 1 keeps a sorted list as it is. `vectors` are of length 1.
    """
    rows = vectors.astype(np.float64)
    likeness = np.full(len(scores), -np.inf)
    gain = scores.astype(np.float64)
    order: list[int] = []
    while len(order) < min(count, len(scores)):
        checkpoint()
        index = int(np.argmax(gain))
        order.append(index)
        # Not a matrix product: there, the same row at another position may differ in its last bit.
        likeness = np.maximum(likeness, (rows * rows[index]).sum(axis=1))
        gain = share * scores - (1.0 - share) * likeness
        gain[order] = -np.inf
    return order


def cited_section(item: Ranked, query: str, *, corrected: Collection[str] = ()) -> ChunkSection:
    """The section of a hit: by its evidence, by the child that was found, or by words.

    `corrected` are the terms that misspelt words of the query stand for.
    """
    chunk = item.passage.chunk
    if item.evidence is not None and chunk.sections:
        offset = chunk.start + item.evidence[0]
        first, *others = chunk.sections
        return [first, *(section for section in others if section.start <= offset)][-1]
    language = item.passage.document.language
    return best_section(item.leaf, query, language=language, corrected=corrected)


def best_section(
    chunk: Chunk, query: str, *, language: str | None, corrected: Collection[str] = ()
) -> ChunkSection:
    """The section of `chunk` that holds the most of the query's content words.

    A word counts for less the more of the sections hold it, and a number for more than a word.
    """
    if not chunk.sections:
        return ChunkSection(chunk.start, chunk.heading_path, chunk.row_range, chunk.item_range)
    words = content_terms(query_terms(query, (language,)))
    wanted = {variant for word in words for variant in word.variants}
    wanted.update(compounds(query), corrected)
    edges = [*(section.start - chunk.start for section in chunk.sections), len(chunk.text)]
    texts = (chunk.text[start:end] for start, end in pairwise(edges))
    overlaps = [wanted & set(index_terms(text, language)) for text in texts]
    holders = Counter(term for terms in overlaps for term in terms)
    scores = [sum(term_worth(term) / holders[term] for term in terms) for terms in overlaps]
    best = max(scores)
    return documents.common_section(
        [section for section, score in zip(chunk.sections, scores, strict=True) if score == best]
    )
