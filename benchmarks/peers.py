"""Lagotto beside other libraries, on the same texts and vectors, in turns: one table.

    python benchmarks peers DATASET... [--rows 20000] [--peers lagotto,txtai,...] [--folder FOLDER]

The texts of the data sets (folders in BEIR's layout) in windows of 80 words, embedded once by
MiniLM; their queries; a group for each row, of which a filter lets one in a hundred through. Each
library is installed at the version named in peer_stores.py, in a virtual environment of its own;
one that can't be installed or that fails is named. All processes stay open, and searches go round:
so many queries of one, then of the next. Milliseconds of CPU, those of a server included;
`returned` of the ten that a filter has, and `violations` of it; recall of the vectors' ten nearest
against an exact scan. `--plot FILE` draws the searches as SVG.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from packaging.requirements import Requirement

import beir
import lagotto
from lagotto.embedders import Embedder
from peer_stores import PEERS

WINDOW, STEP = 80, 60
GROUPS = 100
ROUNDS = 3
FIRST = 8
SLOW_MS = 150.0
"""Libraries that take longer for a search of the first few are asked only these."""
KINDS = {"hybrid": ("hybrid", None), "filtered": ("hybrid", 0), "dense": ("dense", None)}
"""A verb and the group to filter by."""
HEADINGS = {
    "hybrid": "hybrid, ms",
    "filtered": "1 % filter, ms",
    "returned": "returned",
    "violations": "violations",
    "dense": "vectors, ms",
    "recall": "recall@10",
    "build": "build, s",
    "disk": "disk, MB",
    "memory": "memory, MB",
    "open": "start to first answer, s",
    "add": "add one and find it, s",
    "install": "install, MB",
}


class Worker:
    """The process of a library."""

    def __init__(self, name: str, python: Path, data: Path) -> None:
        script = Path(__file__).parent / "peer_stores.py"
        command = [str(python), str(script), name, str(data)]
        self.log = (data / "log").open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )

    def do(self, kind: str, **wanted: Any) -> Any:
        """Its answer; ChildProcessError if it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": kind, **wanted}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildProcessError(f"ended; see {self.log.name}") from None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"ended; see {self.log.name}")
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.communicate(timeout=60)
        self.log.close()


def texts_and_queries(datasets: Sequence[Path], most: int) -> tuple[list[str], list[str]]:
    """Windows of real texts without repetition, and questions on them, in a fixed order."""
    texts, queries = dict[str, None](), []
    for dataset in datasets:
        for document in beir.read_jsonl(dataset / "corpus.jsonl"):
            words = f"{document.get('title') or ''} {document['text']}".split()
            starts = range(0, max(1, len(words) - WINDOW + STEP), STEP)
            texts |= dict.fromkeys(" ".join(words[at : at + WINDOW]) for at in starts)
        queries += list(beir.read_questions(dataset, 20)[0].values())
    rows = list(texts)
    random.Random(1).shuffle(rows)
    random.Random(1).shuffle(queries)
    return rows[:most], queries


async def prepare(folder: Path, datasets: Sequence[Path], most: int, embedder: Embedder) -> None:
    """Write what every library reads, unless it is there."""
    if (folder / "vectors.npz").exists():
        return
    texts, queries = texts_and_queries(datasets, most)
    vectors = [
        await embedder.embed(texts[start : start + 256], role="document")
        for start in range(0, len(texts), 256)
    ]
    asked = await embedder.embed(queries, role="query")
    groups = np.random.default_rng(5).integers(0, GROUPS, len(texts))
    program = _qdrant_program()
    data = {"texts": texts, "queries": queries, "qdrant": program}
    (folder / "texts.json").write_text(json.dumps(data), encoding="utf-8")
    np.savez(folder / "vectors.npz", vectors=np.vstack(vectors), query_vectors=asked, groups=groups)


def _qdrant_program() -> str:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.servers.qdrant import program_path

    return str(program_path())


def environment(name: str, folder: Path) -> Path:
    """The Python that has a library, installed if it is not there yet."""
    if not PEERS[name].requires:
        return Path(sys.executable)
    place = folder / name.replace(" ", "-").replace(",", "")
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        venv.create(place, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PEERS[name].requires]
        subprocess.run(command, check=True)
        (place / "complete").touch()
    return python


def installed_mb(python: Path) -> float:
    """What its packages take on the disk; for Lagotto, itself and what it depends on."""
    if python != Path(sys.executable):
        found = [*(python.parent.parent / "lib").glob("python*/site-packages/**/*")]
        return sum(path.stat().st_size for path in found if path.is_file()) / 1e6
    seen, names = set[str](), ["lagotto"]
    size = sum(path.stat().st_size for path in Path(lagotto.__file__).parent.rglob("*.py"))
    while names:
        name = names.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        package = metadata.distribution(name)
        files = [Path(str(package.locate_file(file))) for file in package.files or ()]
        size += sum(path.stat().st_size for path in files if path.is_file())
        wanted = [Requirement(line) for line in package.requires or ()]
        names += [
            each.name for each in wanted if not each.marker or each.marker.evaluate({"extra": ""})
        ]
    return size / 1e6


class Table:
    """Figures by library, and what went wrong with one."""

    def __init__(self, names: Sequence[str]) -> None:
        self.figures: dict[str, dict[str, Any]] = {name: {} for name in names}
        self.failed: dict[str, str] = {}

    def attempt(self, name: str, step: Callable[[], None]) -> None:
        """A step of a library that has not failed yet."""
        if name in self.failed:
            return
        try:
            step()
        except (ChildProcessError, subprocess.CalledProcessError, OSError) as exc:
            self.failed[name] = str(exc)
            print(f"{name}: {exc}", file=sys.stderr, flush=True)

    def markdown(self) -> str:
        """The table, a row for each library."""
        lines = [
            " | ".join(["", "", *HEADINGS.values(), ""]).strip(" "),
            "| --- " * (len(HEADINGS) + 1) + "|",
        ]
        for name, figures in self.figures.items():
            if name not in self.failed:
                cells = [str(figures.get(key, "")) for key in HEADINGS]
                lines.append("| " + " | ".join([name, *cells]) + " |")
        return "\n".join(lines + [f"\n{name}: {why}" for name, why in self.failed.items()])


def compare(names: Sequence[str], data: Path, environments: Path) -> Table:
    """Everything, step by step."""
    table, workers = Table(names), dict[str, Worker]()
    pythons: dict[str, Path] = {}

    def started(name: str) -> Worker:
        workers[name] = Worker(name, pythons[name], data)
        return workers[name]

    def built(name: str) -> None:
        pythons[name] = environment(name, environments)
        answer = started(name).do("build")
        workers.pop(name).close()
        figures = {"build": round(answer["cpu_s"], 1), "disk": round(answer["disk_mb"])}
        table.figures[name] |= {**figures, "install": round(installed_mb(pythons[name]))}

    def opened(name: str) -> None:
        answer = started(name).do("open")
        first, memory = round(answer["cpu_s"], 2), round(answer["rss_mb"])
        table.figures[name] |= {"open": first, "memory": memory}

    for step in (built, opened):
        for name in names:
            table.attempt(name, lambda name=name, step=step: step(name))  # type: ignore[misc]
            print(name, step.__name__, table.figures[name], file=sys.stderr, flush=True)
    _search(table, workers, data)
    for name, worker in workers.items():
        table.attempt(name, lambda name=name, worker=worker: _end(table, name, worker))  # type: ignore[misc]
        worker.close()
    return table


def _end(table: Table, name: str, worker: Worker) -> None:
    added = worker.do("add")
    if added is not None:
        shown = f"{added['cpu_s']:.3f}" + ("" if added["found"] else ", not found")
        table.figures[name]["add"] = shown
    worker.do("close")


def _search(table: Table, workers: dict[str, Worker], data: Path) -> None:
    """Every kind of search, in turns; the first turn is to warm up, and to see who is slow."""
    arrays = np.load(data / "vectors.npz")
    asked, groups = arrays["query_vectors"], arrays["groups"]
    answers: dict[tuple[str, str], list[dict[str, Any]]] = {}
    counts = dict.fromkeys(workers, FIRST)
    for turn in range(1 + ROUNDS):
        for kind, (verb, group) in KINDS.items():
            for name, worker in workers.items():
                rows = list(range(min(counts[name], len(asked))))

                def ask(name: str = name, worker: Worker = worker, wanted: Any = rows) -> None:
                    answer = worker.do(verb, queries=wanted, group=group)  # noqa: B023
                    if answer:
                        answers.setdefault((name, kind), []).append(answer)  # noqa: B023

                table.attempt(name, ask)
        if turn == 0:
            for name in workers:
                for answer in answers.pop((name, "hybrid"), []):
                    slow = np.median(answer["ms"]) > SLOW_MS
                    counts[name] = FIRST if slow else len(asked)
            answers.clear()
    nearest = np.argsort(-(asked @ arrays["vectors"].T), axis=1)[:, :10]
    for (name, kind), rounds in answers.items():
        figures, found = table.figures[name], rounds[0]["rows"]
        figures[kind] = _times([answer["ms"] for answer in rounds])
        if kind == "filtered":
            figures["returned"] = round(float(np.mean([len(each) for each in found])), 1)
            figures["violations"] = sum(int(groups[row] != 0) for each in found for row in each)
        if kind == "dense":
            shares = [len({*each} & {*nearest[at].tolist()}) / 10 for at, each in enumerate(found)]
            figures["recall"] = round(float(np.mean(shares)), 3)


def _times(rounds: Sequence[Sequence[float]]) -> str:
    """Median and 95th percentile of each query's fastest turn."""
    best = np.min(rounds, axis=0)
    return f"{np.median(best):.2f} / {np.percentile(best, 95):.2f}"


def plot(table: Table, target: Path) -> None:
    """Bars of the hybrid searches, without and with a filter, on a logarithmic scale, as SVG."""
    rows: list[tuple[str, list[float]]] = [
        (name, [float(figures[key].split()[0]) for key in ("hybrid", "filtered")])
        for name, figures in table.figures.items()
        if "filtered" in figures
    ]
    least = min(min(times) for _, times in rows) / 2
    unit = 420 / np.log10(max(max(times) for _, times in rows) / least)
    parts = []
    for at, (name, times) in enumerate(rows):
        top = 30 + 46 * at
        parts.append(f'<text x="150" y="{top + 22}" text-anchor="end">{name}</text>')
        for below, (color, time) in enumerate(zip(("#4c78a8", "#f58518"), times, strict=True)):
            width, y = unit * np.log10(time / least), top + 17 * below
            parts.append(
                f'<rect x="160" y="{y}" width="{width:.0f}" height="15" fill="{color}"/>'
                f'<text x="{165 + width:.0f}" y="{y + 12}">{time:.1f}</text>'
            )
    head = '<text x="160" y="18">CPU ms of a hybrid search; below, through a filter of 1 %</text>'
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="660" height="{40 + 46 * len(rows)}" '
        f'font-family="sans-serif" font-size="12">{head}{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--peers", default=";".join(PEERS), help="names, separated by semicolons")
    parser.add_argument("--folder", type=Path, help="keeps data and environments for the next run")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        data = folder / f"rows-{options.rows}"
        data.mkdir(parents=True, exist_ok=True)
        embedder = beir.embedder("minilm", None)
        asyncio.run(prepare(data, options.datasets, options.rows, embedder))
        table = compare(options.peers.split(";"), data, folder / "environments")
        print(table.markdown())
        if options.plot:
            plot(table, options.plot)
