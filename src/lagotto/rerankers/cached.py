"""A reranker that remembers: what was judged once is not judged again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lagotto.errors import ConfigError, RerankError
from lagotto.models.disk_cache import DiskCache
from lagotto.rerankers.base import Candidate, Judgement, Reranker, Scale, Verdict

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
    def scale(self) -> Scale:
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
