"""Rerankers around other rerankers: a cache, a fallback chain, a gate and a blend."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lagotto.errors import ConfigError, RerankError
from lagotto.models.disk_cache import DiskCache
from lagotto.rerankers.base import UNIT, Candidate, Judgement, Reranker, ScoreScale, Verdict

Verdicts = dict[bytes, Verdict | None]

_verdict = TypeAdapter(Verdict | None)


class CachedReranker:
    """`inner` with its verdicts kept: in memory, and on disk if `folder` is given.

    A verdict is filed under the reranker's id, the query and what the candidate says (title,
    headings, text, language), so a changed passage or model is judged anew. Only candidates
    without a verdict go to `inner`. What came with a note, because something did not work, is not
    kept. Memory holds the `entries` that were used last; a damaged file is moved aside and begun
    anew, one that can't be used is a note. ConfigError for a reranker whose verdicts depend on more
    than the passage.
    """

    def __init__(
        self, inner: Reranker, *, folder: Path | str | None = None, entries: int = 10_000
    ) -> None:
        if entries < 1:
            raise ConfigError(f"entries is {entries}, but must be 1 or more")
        if not getattr(inner, "reads_only_text", True):
            raise ConfigError(
                f"verdicts of {inner.id} depend on more than the passage and can't be kept; "
                "wrap the reranker inside it instead, or leave the cache out"
            )
        self.inner = inner
        self._entries = entries
        self._memory: OrderedDict[bytes, Verdict | None] = OrderedDict()
        self._file = _cache_file(Path(folder)) if folder is not None else None

    @property
    def id(self) -> str:
        """As `inner` has it: the verdicts are the same."""
        return self.inner.id

    @property
    def scale(self) -> ScoreScale:
        """As `inner` has it."""
        return self.inner.scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The verdicts that are known, and new ones for the rest."""
        notes: list[str] = []
        keys = [self._key(query, one) for one in candidates]
        known = await self._known(keys, notes)
        missing = {key: one for key, one in zip(keys, candidates, strict=True) if key not in known}
        if missing:
            judgement = await self.inner.rerank(query, list(missing.values()))
            notes.extend(judgement.notes)
            if judgement.verdicts is None:
                return Judgement(None, tuple(notes))
            made = _paired(missing, judgement.verdicts)
            known |= made
            if not judgement.notes:
                await self._keep(made, notes)
        return Judgement([known[key] for key in keys], tuple(notes))

    async def close(self) -> None:
        """Close `inner` and forget; the file is open only while it is read or written."""
        self._memory.clear()
        await self.inner.close()

    async def _known(self, keys: Sequence[bytes], notes: list[str]) -> Verdicts:
        known = {key: self._memory[key] for key in keys if key in self._memory}
        missing = set(keys) - known.keys()
        if self._file and missing:
            try:
                known |= _parsed(await asyncio.to_thread(self._file.read, missing))
            except RerankError as exc:
                notes.append(str(exc))
        self._remember(known)
        return known

    async def _keep(self, verdicts: Verdicts, notes: list[str]) -> None:
        self._remember(verdicts)
        if self._file:
            try:
                texts = {key: _verdict.dump_json(verdict) for key, verdict in verdicts.items()}
                await asyncio.to_thread(self._file.write, texts)
            except RerankError as exc:
                notes.append(str(exc))

    def _remember(self, verdicts: Verdicts) -> None:
        for key, verdict in verdicts.items():
            self._memory[key] = verdict
            self._memory.move_to_end(key)
        while len(self._memory) > self._entries:
            self._memory.popitem(last=False)

    def _key(self, query: str, candidate: Candidate) -> bytes:
        content = [candidate.title, candidate.heading_path, candidate.text, candidate.language]
        named = json.dumps([self.inner.id, query, *content]).encode()
        return hashlib.blake2b(named, digest_size=32).digest()


def _cache_file(folder: Path) -> DiskCache:
    return DiskCache(
        folder / "verdicts.db", table="verdicts", what="cache of verdicts", failure=RerankError
    )


def _parsed(texts: Mapping[bytes, bytes]) -> Verdicts:
    """The verdicts; what is none, because another version wrote it, is left out."""
    verdicts: Verdicts = {}
    for key, text in texts.items():
        with suppress(ValidationError):
            verdicts[key] = _verdict.validate_json(text)
    return verdicts


def _paired(asked: Mapping[bytes, Candidate], verdicts: Sequence[Verdict | None]) -> Verdicts:
    if len(verdicts) != len(asked):
        raise RerankError(f"got {len(verdicts)} verdicts for {len(asked)} passages")
    return dict(zip(asked, verdicts, strict=True))


class FallbackReranker:
    """Asks `first`, and if that fails the others in turn; at last the fused order stands.

    Each failure is a note of the judgement. Scores keep the rerankers' scale if they all have the
    same one; otherwise they are brought to [0, 1].
    """

    def __init__(self, first: Reranker, *others: Reranker) -> None:
        self.rerankers = (first, *others)
        self.reads_only_text = all(
            getattr(reranker, "reads_only_text", True) for reranker in self.rerankers
        )

    @property
    def id(self) -> str:
        """All of them, in their order."""
        return f"fallback({', '.join(reranker.id for reranker in self.rerankers)})"

    @property
    def scale(self) -> ScoreScale:
        """The shared one, or from 0 to 1."""
        scales = {reranker.scale for reranker in self.rerankers}
        return scales.pop() if len(scales) == 1 else UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """What the first reranker that works says, with notes on those that did not."""
        notes: list[str] = []
        for reranker in self.rerankers:
            try:
                judgement = await reranker.rerank(query, candidates)
            except RerankError as exc:
                notes.append(f"{reranker.id} failed ({exc})")
            else:
                return self._rescaled(judgement, reranker.scale, notes)
        return Judgement(None, (*notes, "no reranker worked, the fused order stands"))

    async def close(self) -> None:
        """Close all of them."""
        for reranker in self.rerankers:
            await reranker.close()

    def _rescaled(self, judgement: Judgement, scale: ScoreScale, notes: Sequence[str]) -> Judgement:
        verdicts = judgement.verdicts
        if verdicts is not None and scale != self.scale:
            verdicts = [
                verdict and replace(verdict, score=scale.unit(verdict.score))
                for verdict in verdicts
            ]
        return Judgement(verdicts, (*notes, *judgement.notes))


class GatedReranker:
    """Asks `inner` unless the best fused score leads the one in place `rank` by `margin` or more.

    Where the lead is that clear the fused order stands, and `inner` costs nothing.
    """

    reads_only_text = False

    def __init__(self, inner: Reranker, *, margin: float = 0.1, rank: int = 2) -> None:
        if not 0 < margin <= 1:
            raise ConfigError(f"margin is {margin}, but must be above 0 and at most 1")
        if rank < 2:
            raise ConfigError(f"rank is {rank}, but the first can only lead one from rank 2 on")
        self.inner = inner
        self.margin = margin
        self.rank = rank

    @property
    def id(self) -> str:
        """The inner one and what is needed to ask it."""
        return f"gated({self.inner.id}, {self.margin!r}, {self.rank})"

    @property
    def scale(self) -> ScoreScale:
        """As `inner` has it."""
        return self.inner.scale

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """What `inner` says, or no verdicts where the order is clear."""
        best = nlargest(self.rank, (one.score for one in candidates))
        if best and best[0] - best[-1] >= self.margin:
            return Judgement(None)
        return await self.inner.rerank(query, candidates)

    async def close(self) -> None:
        """Close the inner one."""
        await self.inner.close()


class BlendedReranker:
    """`weight` times what `inner` says, the rest is the fused score; both on [0, 1].

    What `inner` takes out stays out.
    """

    reads_only_text = False

    def __init__(self, inner: Reranker, *, weight: float = 0.5) -> None:
        if not 0 <= weight <= 1:
            raise ConfigError(f"weight is {weight}, but must lie between 0 and 1")
        self.inner = inner
        self.weight = weight

    @property
    def id(self) -> str:
        """The inner one and its weight."""
        return f"blended({self.inner.id}, {self.weight!r})"

    @property
    def scale(self) -> ScoreScale:
        """That of fused scores."""
        return UNIT

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        """The mixed score of each candidate."""
        judgement = await self.inner.rerank(query, candidates)
        if judgement.verdicts is None:
            return judgement
        blended = [
            verdict and self._blended(verdict, candidate)
            for verdict, candidate in zip(judgement.verdicts, candidates, strict=True)
        ]
        return Judgement(blended, judgement.notes)

    async def close(self) -> None:
        """Close the inner one."""
        await self.inner.close()

    def _blended(self, verdict: Verdict, candidate: Candidate) -> Verdict:
        unit = self.inner.scale.unit(verdict.score)
        return replace(verdict, score=self.weight * unit + (1 - self.weight) * candidate.score)
