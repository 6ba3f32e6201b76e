"""How much work an `add` loses that is stopped at a random moment, and whether it goes on.

    python benchmarks interrupts [--times 40] [--longest 8] [--seed 0]

A process adds a folder of small files and one large file; half of the times it is killed, half of
the times it gets Ctrl-C, and the next one goes on with the same base. The embedder takes 1/25 s a
chunk, asleep, so that figures depend on no CPU. Lost is what the next one has to embed again, in
seconds of embedding. In the end the base must hold what a base holds that nobody stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Vectors
from lagotto.embedders import Role
from lagotto.testing.hash_embedder import HashEmbedder
from synthetic import WORDS

SECONDS = 1 / 25
FILES = 1_200
LARGE = 400_000
"""Words of the large file."""
ALLOWED = 10.0
"""Seconds of work that may be lost."""


class SlowEmbedder(HashEmbedder):
    """Takes its time for each text, and notes it in a file."""

    def __init__(self, log: Path | None) -> None:
        super().__init__(dimension=64)
        self._log = log

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        for start in range(0, len(texts) if self._log else 0, 4):
            some = texts[start : start + 4]
            await asyncio.sleep(SECONDS * len(some))
            with self._log.open("a", encoding="utf-8") as file:  # type: ignore[union-attr]
                file.writelines(f"{hash_of(text)}\n" for text in some)
        return await super().embed(texts, role=role)


def hash_of(text: str) -> str:
    """A name for a text that any process has for it."""
    from lagotto.documents import digest

    return digest(text)


def write_files(folder: Path) -> None:
    """Small files, some of several chunks, and a large one in between."""
    chance = random.Random(1)
    folder.mkdir()
    for number in range(FILES):
        words = " ".join(chance.choices(WORDS, k=chance.choice([60, 200, 900])))
        (folder / f"{number:04}.txt").write_text(f"File {number}. {words}.", encoding="utf-8")
    words = " ".join(chance.choices(WORDS, k=LARGE))
    (folder / f"{FILES // 2:04}-large.txt").write_text(words, encoding="utf-8")


async def add(base: Path, folder: Path, log: Path | None) -> tuple[int, int]:
    """Add the folder, and count documents and chunks."""
    async with AsyncKnowledgeBase(base, embedder=SlowEmbedder(log)) as opened:
        await opened.add(folder)
        info = await opened.info()
        return info.documents, info.chunks


def run_child(base: Path, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    arguments = ["interrupts", "--child", str(base), str(folder), str(log)]
    return subprocess.Popen([sys.executable, Path(__file__).parent, *arguments])


def size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def lost_texts(log: Path) -> int:
    """How many texts were embedded a second time since the last look."""
    lines = log.read_text(encoding="utf-8").split() if log.exists() else []
    return len(lines) - len(set(lines))


def interrupted(workplace: Path, times: int, longest: float, chance: random.Random) -> list[float]:
    """Stop `times` runs, let one finish, and return the seconds lost by each of those stopped."""
    base, folder, log = workplace / "kb.db", workplace / "files", workplace / "log"
    write_files(folder)
    lost: list[float] = []
    before = 0
    for number in range(times + 1):
        embedded = size(log)
        child = run_child(base, folder, log)
        started = time.monotonic()
        while size(log) == embedded and child.poll() is None:  # until it embeds
            time.sleep(0.05)
        if number < times:
            time.sleep(chance.uniform(0.0, longest))
            child.send_signal(signal.SIGINT if number % 2 else signal.SIGKILL)
        child.wait()
        again = lost_texts(log)
        if number:
            lost.append((again - before) * SECONDS)
            print(f"run {number}: {time.monotonic() - started:.0f} s, lost {lost[-1]:.1f} s")
        before = again
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--longest", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=3, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(add(*options.child))
        return 0
    with tempfile.TemporaryDirectory() as name:
        chance = random.Random(options.seed)
        lost = interrupted(Path(name), options.times, options.longest, chance)
        there = asyncio.run(add(Path(name) / "kb.db", Path(name) / "files", None))
        whole = asyncio.run(add(Path(name) / "whole.db", Path(name) / "files", None))
    print(
        f"{len(lost)} interrupts: lost {max(lost):.1f} s at most, {sum(lost) / len(lost):.1f} s on"
    )
    print(f"average; {there[0]} documents, {there[1]} chunks, {whole[1]} without interrupts")
    return 0 if max(lost) <= ALLOWED and there == whole else 1
