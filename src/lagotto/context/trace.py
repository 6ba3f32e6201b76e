"""The trace of a pack: candidates, verdicts, and which chunks stayed or were dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import AliasChoices, Field, computed_field, model_validator

from lagotto.context.passages import ROLES, PackRole, Piece
from lagotto.context.selection import PackSelection
from lagotto.documents import Record
from lagotto.rerankers.base import RerankResult
from lagotto.results import RetrievalResult, RetrievalStats, Score, TracedCandidate


class RoleCount(Record):
    """The number of chunks in one role: found, and kept."""

    found: int = 0
    kept: int = 0


class Dropped(Record):
    """A chunk that was dropped, and why; `token_count` is its own, without markup."""

    chunk_id: str
    collection: str
    document_id: str
    document_title: str | None = None
    role: PackRole
    token_count: int = 0
    reason: str


class ContextTrace(Record):
    """How a pack was made.

    `candidates`, also as `pinecone_candidates`, are what the legs found: all of it if the search
    says how many candidates each brings, else the best. `rerank_results` are what the reranker said
    of those that it saw. `truncated` are the chunks that were cut at a
    sentence; `notes` say what else did not go as it should, and why a pack is empty; `stats` are
    those of the search, as in a bundle.
    """

    candidates: tuple[TracedCandidate, ...] = Field(
        default=(), validation_alias=AliasChoices("candidates", "pinecone_candidates")
    )
    rerank_results: tuple[RerankResult, ...] = ()
    final_token_count: int = 0
    expansion_stats: dict[PackRole, RoleCount] = Field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    truncated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stats: RetrievalStats = RetrievalStats()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pinecone_candidates(self) -> tuple[TracedCandidate, ...]:
        """`candidates`, under the name that one vendor's users know them by."""
        return self.candidates

    @model_validator(mode="before")
    @classmethod
    def _one_of_two_names(cls, given: Any) -> Any:
        """What was dumped has both names."""
        if isinstance(given, Mapping) and "candidates" in given:
            return {name: value for name, value in given.items() if name != "pinecone_candidates"}
        return given


def traced(
    results: Sequence[RetrievalResult],
    *,
    candidates: Sequence[TracedCandidate],
    reranked: Sequence[RetrievalResult],
    selection: PackSelection,
    tokens: int,
    max_tokens: int,
    notes: Sequence[str],
) -> ContextTrace:
    """The trace of a pack of `tokens`."""
    found, kept = selection.found.values(), selection.taken.values()
    notes = (*notes, *selection.notes)
    if not results:
        notes = (*notes, "empty: nothing was found")
    elif not kept and not selection.notes:
        notes = (*notes, f"empty: {max_tokens} tokens are too few for even a part of a hit")
    return ContextTrace(
        candidates=tuple(candidates) or _candidates(results),
        rerank_results=_reranks(reranked),
        final_token_count=tokens,
        expansion_stats={role: _count(role, found, kept) for role in ROLES},
        dropped=_dropped(selection),
        truncated=tuple(piece.chunk.id for piece in kept if piece.truncated),
        notes=tuple(notes),
    )


def _candidates(results: Sequence[RetrievalResult]) -> tuple[TracedCandidate, ...]:
    scored = [(_fused(result), result) for result in results]
    scored.sort(key=lambda pair: (-pair[0], pair[1].rank))
    return tuple(
        TracedCandidate(
            chunk_id=result.child_id or result.chunk_id,
            collection=result.collection,
            document_id=result.document_id,
            rank=rank,
            score=score,
        )
        for rank, (score, result) in enumerate(scored, 1)
    )


def _fused(result: RetrievalResult) -> Score:
    fused = result.breakdown.fused_score
    return result.score if fused is None else fused


def _reranks(results: Sequence[RetrievalResult]) -> tuple[RerankResult, ...]:
    return tuple(
        RerankResult(
            chunk_id=result.child_id or result.chunk_id,
            relevance_score=100 * result.breakdown.rerank_score,
            answerability=result.answerable,
            key_evidence=result.content[slice(*result.evidence)] if result.evidence else None,
        )
        for result in results
        if result.breakdown.rerank_score is not None
    )


def _count(role: PackRole, found: Collection[Piece], kept: Collection[Piece]) -> RoleCount:
    return RoleCount(
        found=sum(piece.role == role for piece in found),
        kept=sum(piece.role == role for piece in kept),
    )


def _dropped(selection: PackSelection) -> tuple[Dropped, ...]:
    return tuple(
        Dropped(
            chunk_id=piece.chunk.id,
            collection=piece.chunk.collection,
            document_id=piece.chunk.document_id,
            document_title=piece.hit.document_title,
            role=piece.role,
            token_count=piece.chunk.token_count,
            reason=selection.reasons[name],
        )
        for name, piece in selection.found.items()
        if name not in selection.taken
    )
