"""Time `sync` over a folder of small files: first, unchanged, and unchanged with checksum."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from lagotto import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder

LONG_AGO = 1_600_000_000


def write_files(folder: Path, count: int) -> None:
    """Write small notes, 200 to a folder, old enough to be recognised as unchanged."""
    for number in range(count):
        path = folder / f"{number // 200}" / f"note{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nThis note is about subject {number * 7 % 1000}.\n")
        os.utime(path, (LONG_AGO, LONG_AGO))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder / "notes", files)
        with KnowledgeBase(folder / "kb.db", embedder=HashEmbedder()) as kb:
            for run, checksum in (("first", False), ("unchanged", False), ("checksum", True)):
                started = time.perf_counter()
                report = kb.sync(folder / "notes", checksum=checksum)
                print(f"{run:<10} {time.perf_counter() - started:6.1f} s  {report}")


if __name__ == "__main__":
    main()
