"""Damage: bytes of a closed base are changed, cut off or deleted, in every file of it.

Indexes are derived: after any damage to them the base answers as before, or refuses to. The
database is the only copy of the documents: its damage is an error that never advises deleting it,
or is found by `lagotto doctor`, or changes nothing that is ever shown.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from campaign_checks import COMMON, Findings, answers, differences, read_all
from campaign_site import Changes, Site, State, made_site
from campaign_worker import apply
from lagotto.errors import LagottoError

ADVICE = ("delete", "remove it", "rm ")
"""Words that no message about a damaged database may have."""


def _flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _garbage(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    size = min(chance.choice((4, 64, 512, 4096)), len(data) - start)
    data[start : start + size] = chance.randbytes(size)


def _zeros(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    data[start : start + 512] = bytes(min(512, len(data) - start))


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def _empty(data: bytearray, chance: random.Random) -> None:
    data.clear()


def _append(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(100)


WAYS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _garbage, _garbage, _zeros, _cut, _empty, _append,
)  # fmt: skip


@dataclass(slots=True)
class DamageCounts:
    """What became of damaged files: how often a base was right, refused, or doctor saw it."""

    index_files: Counter[str] = field(default_factory=Counter)
    database: Counter[str] = field(default_factory=Counter)
    findings: Findings = field(default_factory=Findings)

    def __str__(self) -> str:
        return f"index files {_listed(self.index_files)}; database {_listed(self.database)}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


class Vandal:
    """Damages copies of one base."""

    def __init__(self, kind: str, seed: int) -> None:
        self._kind = kind
        self._chance = random.Random(f"{seed}/{kind}/damage")
        self._counts = DamageCounts()
        self._documents: dict[Any, Any] = {}
        self._answers: list[Any] = []
        self._queries: list[str] = []

    async def run(self, rounds: int, enough: Callable[[], bool]) -> DamageCounts:
        """Damage every file of the base in turn, in so many ways."""
        with made_site(self._kind) as (site, _):
            await self._fill(site)
            database = Path(site.location)
            files = sorted(path for path in database.parent.rglob("*") if path.is_file())
            # The database has a share of the damage that its importance has, not its number.
            targets = [*files, *[database] * max(1, len(files) // 2)]
            for number in range(rounds):
                if enough():
                    break
                await self._damage(site, targets[number % len(targets)], number)
        return self._counts

    async def _fill(self, site: Site) -> None:
        changes = Changes(self._chance, first=0)
        stored: State = {}
        async with site.new_base() as base:
            for _ in range(15):
                change = changes.add()
                await apply(base, change)
                stored |= change
            await base.retrieve("truffle")
        self._queries = [*COMMON, *(name for _, name in list(stored)[:5])]
        async with site.base() as base:
            self._documents = await read_all(base)
            self._answers = await answers(base, self._queries)

    async def _damage(self, site: Site, target: Path, number: int) -> None:
        original = Path(site.location)
        with tempfile.TemporaryDirectory(prefix="lagotto-campaign-") as name:
            folder = Path(name) / "base"
            shutil.copytree(original.parent, folder)
            damaged = folder / target.relative_to(original.parent)
            way = self._spoil(damaged)
            copy = replace(site, location=str(folder / original.name))
            result, problems = await self._result(copy, target == original)
        part = "database" if target == original else "index_files"
        counts = self._counts.database if target == original else self._counts.index_files
        counts[result] += 1
        label = f"{self._kind}, {part} {target.name} {way}, {number}"
        self._counts.findings.wrong += [f"{label}: {problem}" for problem in problems]

    def _spoil(self, path: Path) -> str:
        if self._chance.random() < 0.1 and path.suffix != ".db":
            path.unlink()
            return "deleted"
        data = bytearray(path.read_bytes())
        if not data:
            path.write_bytes(b"garbage")
            return "filled"
        way = self._chance.choice(WAYS)
        way(data, self._chance)
        path.write_bytes(data)
        return way.__name__.strip("_")

    async def _result(self, site: Site, of_database: bool) -> tuple[str, list[str]]:
        """What a damaged base does, and what it must not do."""
        try:
            async with site.base() as base:
                documents = await read_all(base)
                found = differences(await answers(base, self._queries), self._answers)
            found += [
                f"{name} differs"
                for name in self._documents
                if documents.get(name) != self._documents[name]
            ]
            seen = await self._seen_by_doctor(site)
        except LagottoError as exc:
            return "refused", self._bad_advice(str(exc), site) if of_database else []
        except Exception as exc:  # noqa: BLE001 the finding itself
            return "crashed", [f"{type(exc).__name__}: {exc}"]
        if not found:
            return "right", []
        if of_database and seen:
            return "seen by doctor", []
        return "silent", found[:2]

    async def _seen_by_doctor(self, site: Site) -> bool:
        store = site.store()
        await store.open()
        try:
            return any(found.level == "problem" for found in await store.check())
        finally:
            await store.close()

    def _bad_advice(self, message: str, site: Site) -> list[str]:
        if any(word in message.lower() for word in ADVICE) and ".index" not in message:
            return [f"advises to delete: {message}"]
        return []
