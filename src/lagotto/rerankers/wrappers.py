"""Rerankers around other rerankers: a cache, a fallback chain, a gate and a blend."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lagotto.errors import ConfigError, RerankError
from lagotto.models.cache import DiskCache
from lagotto.rerankers.base import (
    UNIT,
    Candidate,
    Judgement,
    Reranker,
    Verdict,
    WithEmbedder,
    create_reranker,
    stops_in_time,
)

Verdicts = Mapping[bytes, Verdict | None]

_VERDICT = TypeAdapter(Verdict | None)


class _WrappedReranker:
    """A reranker around others, which are closed with it; on their scale, if they share one."""

    reads_only_text = False

    def __init__(self, inner: Reranker, *others: Reranker) -> None:
        self.inner = inner
        self.rerankers = (inner, *others)
        self.scale = UNIT if any(other.scale != inner.scale for other in others) else inner.scale
        self.stops_in_time = all(map(stops_in_time, self.rerankers))

    async def close(self) -> None:
        for reranker in self.rerankers:
            await reranker.close()


class CachedReranker(_WrappedReranker):
    """Caches the verdicts of `inner` in memory, and on disk if `folder` is given.

    The key is the reranker's id, the query and the candidate's title, headings, text and language,
    so a changed passage or model is judged again. Only candidates without a cached verdict go to
    `inner`. Verdicts that come with notes are not cached, since something failed. The `entries`
    used last stay in memory. A damaged file is moved aside and replaced; a file that can't be used
    is reported as a note. ConfigError unless `inner` reads only text.
    """

    reads_only_text = True

    def __init__(
        self, inner: Reranker, *, folder: Path | str | None = None, entries: int = 10_000
    ) -> None:
        if entries < 1:
            raise ConfigError(f"entries is {entries}; it must be 1 or more")
        if not inner.reads_only_text:
            raise ConfigError(
                f"verdicts of {inner.id} depend on more than the passage and can't be cached; "
                "cache the reranker inside it instead, or leave out the cache"
            )
        super().__init__(inner)
        self._entries = entries
        self._memory: OrderedDict[bytes, Verdict | None] = OrderedDict()
        self._file: DiskCache | None = None
        if folder is not None:
            path = Path(folder) / "verdicts.db"
            self._file = DiskCache(
                path, table="verdicts", what="verdict cache", failure=RerankError
            )

    @property
    def id(self) -> str:
        """The id of `inner`: the verdicts are the same."""
        return self.inner.id

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        notes: list[str] = []
        keys = [self._key(query, one) for one in candidates]
        by_key = await self._load(keys, notes)
        missing = {key: one for key, one in zip(keys, candidates, strict=True) if key not in by_key}
        late: set[bytes] = set()
        if missing:
            judgement = await self.inner.rerank(query, list(missing.values()))
            notes.extend(judgement.notes)
            verdicts = judgement.verdicts
            if verdicts is None:
                return Judgement(None, tuple(notes))
            if len(verdicts) != len(missing):
                raise RerankError(
                    f"the reranker returned {len(verdicts)} verdicts for {len(missing)} passages"
                )
            fresh = dict(zip(missing, verdicts, strict=True))
            by_key |= fresh
            late = {key for index, key in enumerate(missing) if index in judgement.unjudged}
            if not judgement.notes:
                await self._save({key: fresh[key] for key in fresh.keys() - late}, notes)
        unjudged = frozenset(index for index, key in enumerate(keys) if key in late)
        return Judgement([by_key[key] for key in keys], tuple(notes), unjudged)

    async def close(self) -> None:
        self._memory.clear()
        await super().close()

    async def _load(self, keys: Collection[bytes], notes: list[str]) -> dict[bytes, Verdict | None]:
        by_key = {key: self._memory[key] for key in keys if key in self._memory}
        missing = set(keys) - by_key.keys()
        if self._file and missing:
            try:
                texts = await asyncio.to_thread(self._file.read, missing)
                for key, text in texts.items():
                    with suppress(ValidationError):  # another version wrote it in another form
                        by_key[key] = _VERDICT.validate_json(text)
            except RerankError as exc:
                notes.append(str(exc))
        self._store(by_key)
        return by_key

    async def _save(self, verdicts: Verdicts, notes: list[str]) -> None:
        self._store(verdicts)
        if self._file:
            try:
                texts = {key: _VERDICT.dump_json(verdict) for key, verdict in verdicts.items()}
                await asyncio.to_thread(self._file.write, texts)
            except RerankError as exc:
                notes.append(str(exc))

    def _store(self, verdicts: Verdicts) -> None:
        for key, verdict in verdicts.items():
            self._memory[key] = verdict
            self._memory.move_to_end(key)
        while len(self._memory) > self._entries:
            self._memory.popitem(last=False)

    def _key(self, query: str, candidate: Candidate) -> bytes:
        header = [candidate.title, candidate.heading_path, candidate.context]
        content = [*header, candidate.text, candidate.language]
        named = json.dumps([self.inner.id, query, *content]).encode()
        return hashlib.blake2b(named, digest_size=32).digest()


def _cached(name: str, embedder: object) -> CachedReranker:
    """Create `cached:NAME`: the reranker of that name, with a cache in memory."""
    if not name:
        raise ConfigError("missing name; write cached:NAME, as in cached:llm:gpt-4o")
    return CachedReranker(create_reranker(name, embedder=embedder))


from_name = WithEmbedder(_cached)


class FallbackReranker(_WrappedReranker):
    """Tries rerankers in order until one succeeds; if all fail, the fused order stands.

    Each failure becomes a note. Scores stay on the rerankers' scale if they share one, and are
    converted to [0, 1] otherwise.
    """

    def __init__(self, first: Reranker, *others: Reranker) -> None:
        super().__init__(first, *others)
        self.reads_only_text = all(reranker.reads_only_text for reranker in self.rerankers)

    @property
    def id(self) -> str:
        return f"fallback({', '.join(reranker.id for reranker in self.rerankers)})"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        notes: list[str] = []
        for reranker in self.rerankers:
            try:
                judgement = await reranker.rerank(query, candidates)
            except RerankError as exc:
                notes.append(f"{reranker.id} failed ({exc})")
                continue
            verdicts = judgement.verdicts
            if verdicts is not None and reranker.scale != self.scale:
                verdicts = [
                    verdict and replace(verdict, score=reranker.scale.unit(verdict.score))
                    for verdict in verdicts
                ]
            return Judgement(verdicts, (*notes, *judgement.notes), judgement.unjudged)
        return Judgement(None, (*notes, "all rerankers failed, keeping the fused order"))


class GatedReranker(_WrappedReranker):
    """Keeps the fused order if its best score leads that at `rank` by `margin`, or asks `inner`."""

    def __init__(self, inner: Reranker, *, margin: float = 0.1, rank: int = 2) -> None:
        if not 0 < margin <= 1:
            raise ConfigError(f"margin is {margin}; it must be above 0 and at most 1")
        if rank < 2:
            raise ConfigError(f"rank is {rank}; it must be 2 or more")
        super().__init__(inner)
        self.margin = margin
        self.rank = rank

    @property
    def id(self) -> str:
        return f"gated({self.inner.id}, {self.margin!r}, {self.rank})"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        best = nlargest(self.rank, (one.score for one in candidates))
        if best and best[0] - best[-1] >= self.margin:
            return Judgement(None)
        return await self.inner.rerank(query, candidates)


class BlendedReranker(_WrappedReranker):
    """Mixes the score of `inner`, times `weight`, with the fused score; both in [0, 1].

    Candidates that `inner` drops stay dropped.
    """

    def __init__(self, inner: Reranker, *, weight: float = 0.5) -> None:
        if not 0 <= weight <= 1:
            raise ConfigError(f"weight is {weight}; it must be between 0 and 1")
        super().__init__(inner)
        self.scale = UNIT
        self.weight = weight

    @property
    def id(self) -> str:
        return f"blended({self.inner.id}, {self.weight!r})"

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
        judgement = await self.inner.rerank(query, candidates)
        if judgement.verdicts is None:
            return judgement
        blended: list[Verdict | None] = []
        for verdict, candidate in zip(judgement.verdicts, candidates, strict=True):
            if verdict is not None:
                unit = self.inner.scale.unit(verdict.score)
                score = self.weight * unit + (1 - self.weight) * candidate.score
                verdict = replace(verdict, score=score)
            blended.append(verdict)
        return Judgement(blended, judgement.notes, judgement.unjudged)
