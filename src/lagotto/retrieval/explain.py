"""What a search reports of itself: notes, times, and explained scores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Self

from lagotto._internal.concurrency import with_checkpoints
from lagotto.errors import DegradedError, LagottoError
from lagotto.prefs import RetrievalPrefs
from lagotto.results import FusionInputs, Leg, LegScore, RetrievalStats, ScoredCandidate
from lagotto.retrieval.fusion import Candidates, Fused, LegContribution
from lagotto.stores.base import Passage

REST = "other"
"""The stage that gets the time outside of all other stages."""


def strict_error(note: str) -> DegradedError:
    return DegradedError(
        f"{note}; the search is strict, so it ends here (strict=False continues without it)"
    )


class Diagnostics:
    """The notes and times of one search; with `strict` a note is an error."""

    def __init__(self, *, strict: bool = False, trace_id: str | None = None) -> None:
        self._strict = strict
        self._trace_id = trace_id
        self._notes: dict[str, None] = {}
        self._spent: dict[str, float] = {}
        self._running = [REST]
        self._since = time.perf_counter()
        self.corrections: dict[str, tuple[str, ...]] = {}
        """The misspelt words of the query, and the index terms that each was replaced by."""
        self.synonyms: dict[str, tuple[str, ...]] = {}
        """The words and phrases of the query that have synonyms, with these."""
        self.candidates: tuple[ScoredCandidate, ...] = ()
        """Every candidate with its scores, if the search was asked to explain them."""
        self.fusion: FusionInputs | None = None
        """What else their fused scores depend on."""

    def stage(self, name: str) -> Self:
        """Count the time for a stage, to the end of the `with` block that this is for.

        A stage that runs twice adds up. One inside another pauses it: times add up to the total.
        """
        self._count()
        self._running.append(name)
        return self

    def __enter__(self) -> None:
        """The stage has begun already."""

    def __exit__(self, *_: object) -> None:
        self._count()
        self._running.pop()

    def milliseconds(self) -> dict[str, float]:
        """The time of each stage so far, of `other`, and the `total`."""
        self._count()
        stages = {name: 1000 * seconds for name, seconds in self._spent.items()}
        return {**stages, "total": sum(stages.values())}

    def _count(self) -> None:
        now = time.perf_counter()
        stage = self._running[-1]
        self._spent[stage] = self._spent.get(stage, 0.0) + now - self._since
        self._since = now

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def note(
        self,
        part: str,
        problem: object,
        *,
        cause: BaseException | None = None,
        is_hint: bool = False,
    ) -> None:
        """Record that the search continues without `part`; DegradedError if it is strict.

        A hint is on what may well be right, or on a search that lacks nothing, and never an error.
        """
        message = f"{part}: {problem}"
        if self._strict and not is_hint:
            raise strict_error(message) from cause
        self._notes[message] = None

    @contextmanager
    def does_without(self, part: str, problem: str, failure: type[LagottoError]) -> Iterator[None]:
        """Note that a part failed: the search continues after what follows in the `with` block.

        Parts of other packages may raise anything. Only a LagottoError that is not a `failure` of
        the part, such as an invalid setting, is raised.
        """
        try:
            yield
        except Exception as exc:
            if isinstance(exc, LagottoError) and not isinstance(exc, failure):
                raise
            self.note(part, f"{problem} ({exc})", cause=exc)

    def stats(self, prefs: RetrievalPrefs, counts: Mapping[str, int]) -> RetrievalStats:
        """The notes, and with `prefs.debug` times, counts, parameters and the trace id."""
        measured: dict[str, Any] = {}
        if prefs.debug:
            measured = {
                "timing_ms": self.milliseconds(),
                "counts": dict(counts),
                "params": prefs.model_dump(mode="json"),
                "trace_id": self._trace_id,
            }
        return RetrievalStats(
            degraded=self.notes,
            corrections=self.corrections,
            synonyms=self.synonyms,
            candidates=self.candidates,
            fusion=self.fusion,
            **measured,
        )


def breakdown_fields(
    row: int, candidates: Candidates, fused: Fused, **reranked: float | None
) -> dict[str, Any]:
    """The fields of a ScoreBreakdown, for a record that has one: validated once, with it."""
    before = fused.scores if fused.unboosted is None else fused.unboosted
    fields: dict[str, Any] = dict(
        **_leg_fields(row, candidates, fused.parts),
        fused=float(fused.raw[row]),
        fused_score=float(before[row]),
        fused_ends=fused.ends,
        **reranked,
    )
    if fused.boosts:
        fields["boosts"] = {name: float(factors[row]) for name, factors in fused.boosts.items()}
        fields["boost_scale"] = fused.boost_scale
        fields["boosted"] = float(fused.scores[row])
    return fields


def scored_candidates(
    passages: Sequence[Passage], candidates: Candidates, fused: Fused
) -> tuple[ScoredCandidate, ...]:
    """The candidates that `passages` are of, best first, with every leg's score for each."""
    rows = {int(key): row for row, key in enumerate(candidates.keys)}
    ranked = sorted(passages, key=lambda passage: -fused.scores[rows[passage.key]])
    return tuple(
        ScoredCandidate(
            collection=passage.document.collection,
            document_id=passage.document.id,
            chunk_id=passage.chunk.id,
            document_title=passage.document.title,
            document_source=passage.document.source,
            document_source_ref=passage.document.source_ref,
            document_kind=passage.document.kind,
            text=passage.chunk.text,
            **passage.chunk.location_fields(),
            breakdown=breakdown_fields(row, candidates, fused),
        )
        for passage, row in ((item, rows[item.key]) for item in with_checkpoints(ranked))
    )


def leg_scores(row: int, candidates: Candidates, fused: Fused | None = None) -> dict[Leg, LegScore]:
    """Each leg's score for the candidate in `row`, and its contribution to the fused score.

    A leg that has no score for it is left out.
    """
    legs = _leg_fields(row, candidates, fused.parts if fused else {})
    return {leg: LegScore(**fields) for leg, fields in legs.items()}


def _leg_fields(
    row: int, candidates: Candidates, parts: Mapping[Leg, LegContribution]
) -> dict[Any, dict[str, Any]]:
    legs: dict[Any, dict[str, Any]] = {}
    for leg, scores in candidates.legs.items():
        if not isfinite(scores.scores[row]):
            continue
        fields = {"score": float(scores.scores[row]), "rank": int(scores.ranks[row]) or None}
        part = parts.get(leg)
        if part is not None:  # a leg without weight contributes nothing
            fields["normalised"] = float(part.normalised[row])
            fields["weight"] = part.weight
            fields["contribution"] = float(part.contribution[row])
            fields["damping"] = part.damping
        legs[leg] = fields
    return legs
