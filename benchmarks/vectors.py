"""How fast and how complete the embedded store's vector index is.

    python benchmarks vectors [--rows 10000,100000] [--queries 100] [--folder FOLDER]
    python benchmarks vectors --texts FOLDER... [--embedder minilm]
    python benchmarks vectors --vectors documents.npy --asked queries.npy
    python benchmarks vectors --rows 400000 --graph        # with usearch installed beside it

Rows are drawn from a mixture of topics with a power-law spectrum and a common offset, as the
vectors of a language model have; or they are those of real texts and questions, in folders in the
layout of BEIR, or in files of unit vectors. Only the latter tell the recall of real bases: made-up
vectors flatter every index. Recall is measured against an exact search; CPU time counts all
threads. `--graph` has the same rows in a graph (HNSW, half precision) for comparison; it knows no
filters, so under one it is asked for more and more until ten of them are allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beir import read_jsonl
from lagotto.documents import Vector, Vectors
from lagotto.embedders.base import create_embedder
from lagotto.indexes.base import Hits, LogPosition
from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.rows import MatrixSnapshot
from lagotto.indexes.vectors.sketch import Tuning

DIMENSION = 384
TOPICS = 1000
BATCH = 50_000
MODEL = "benchmark"
WINDOW = 60
"""Words of a text that is embedded."""

Keys = NDArray[np.int64]
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Data:
    """Rows, the topic of each, and queries; the first queries are about topic 0."""

    rows: Vectors
    topics: NDArray[np.intp]
    queries: Vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", default="10000,100000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--texts", type=Path, nargs="+")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--asked", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--graph", action="store_true")
    options = parser.parse_args()
    if options.texts:
        sources = iter([asyncio.run(embed(options.texts, options.embedder, options.queries))])
    elif options.vectors:
        sources = iter([read(options.vectors, options.asked)])
    else:
        sources = (draw(int(count), options.queries) for count in options.rows.split(","))
    for data in sources:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for name, figures in measure(data, Path(folder)):
                line: dict[str, float | str] = {"rows": len(data.rows), "what": name, **figures}
                print(_text(line), flush=True)
        for name, figures in measure_graph(data) if options.graph else ():
            print(_text({"rows": len(data.rows), "what": name, **figures}), flush=True)


def draw(count: int, queries: int) -> Data:
    """Made-up vectors; 2 % of the rows and half of the queries are about topic 0."""
    random = np.random.default_rng(count)
    spectrum = np.arange(1, DIMENSION + 1) ** -0.5
    spectrum /= np.linalg.norm(spectrum)
    turn = np.linalg.qr(random.standard_normal((DIMENSION, DIMENSION)))[0] * spectrum[:, None]
    turn = turn.astype(np.float32)
    offset = 0.2 * _unit(random.standard_normal((1, DIMENSION), dtype=np.float32))
    centres = random.standard_normal((TOPICS, DIMENSION), dtype=np.float32)

    def around(topics: NDArray[np.intp], spread: float) -> Vectors:
        noise = random.standard_normal((len(topics), DIMENSION), dtype=np.float32)
        return _unit((centres[topics] + np.float32(spread) * noise) @ turn + offset)

    topics = random.integers(1, TOPICS, count)
    topics[random.random(count) < 0.02] = 0
    rows = np.empty((count, DIMENSION), dtype=np.float32)
    for start in range(0, count, BATCH):
        rows[start : start + BATCH] = around(topics[start : start + BATCH], 2.0)
    asked = random.integers(1, TOPICS, queries)
    asked[: queries // 2] = 0
    return Data(rows, topics, around(asked, 2.0))


async def embed(folders: Sequence[Path], embedder: str, queries: int) -> Data:
    """Windows of real texts, and as many questions of each folder."""
    texts: dict[str, None] = {}
    asked: list[str] = []
    for folder in folders:
        for row in read_jsonl(folder / "corpus.jsonl"):
            words = f"{row.get('title', '')} {row['text']}".split()
            starts = range(0, max(1, len(words) - WINDOW // 2), WINDOW)
            texts |= dict.fromkeys(" ".join(words[start : start + WINDOW]) for start in starts)
        asked += [row["text"] for row in read_jsonl(folder / "queries.jsonl")][:queries]
    model = create_embedder(embedder)
    rows = await model.embed(list(texts), role="document")
    found = _with_topic(rows, await model.embed(asked, role="query"))
    await model.close()
    return found


def read(vectors: Path, asked: Path) -> Data:
    """Vectors from files."""
    return _with_topic(np.load(vectors), np.load(asked))


def _with_topic(rows: Vectors, queries: Vectors) -> Data:
    """Topic 0 is the fiftieth of the rows nearest to the first query."""
    nearness = rows @ queries[0]
    return Data(rows, (nearness < np.quantile(nearness, 0.98)).astype(np.intp), queries)


def measure(data: Data, folder: Path) -> Iterator[tuple[str, Figures]]:
    """Build, open, search with several filters, change."""
    yield "build", timed_once(lambda: build(data.rows, folder))
    dimension = data.rows.shape[1]
    yield "open", timed_once(lambda: load(folder, dimension))
    index = load(folder, dimension)
    yield "first search", timed_once(lambda: index.snapshot.search(data.queries[0], 100))
    yield "the same again", timed_once(lambda: index.snapshot.search(data.queries[0], 100))
    yield "verify all rows", timed_once(load(folder, dimension).snapshot.base.verify)
    keys = index.snapshot.keys
    for name, allowed in filters_of(data).items():
        yield f"search {name}", searched(index.snapshot, data, allowed)
    yield "memory", memory()
    new = len(keys) + np.arange(len(keys) // 5)
    yield "add one", timed([partial(add_one, index, data, key) for key in new[:200]])
    index.add(new[200:], data.rows[200 : len(new)])
    index.remove(keys[::50])
    yield "search, 20 % new, 2 % removed", searched(index.snapshot, data, None)


def filters_of(data: Data) -> dict[str, Keys | None]:
    """The keys that each filter allows; a key is the number of a row."""
    random, keys = np.random.default_rng(0), np.arange(len(data.rows))
    some, few = (keys[random.random(len(keys)) < share] for share in (0.1, 0.01))
    return {"all": None, "10 %": some, "1 %": few, "topic": keys[data.topics == 0]}


def measure_graph(data: Data) -> Iterator[tuple[str, Figures]]:
    """Build a graph of the rows in one thread, and search it with several widths and filters."""
    from usearch.index import Index  # type: ignore[import-not-found]

    count, dimension = data.rows.shape
    graph = Index(ndim=dimension, metric="cos", dtype="f16")
    yield "graph, build", timed_once(lambda: graph.add(np.arange(count), data.rows, threads=1))

    def nearest(query: Vector, k: int, *, allowed: NDArray[np.bool_] | None) -> Keys:
        wanted = k
        while True:
            keys = np.asarray(graph.search(query, wanted, threads=1).keys, np.int64)
            keys = keys if allowed is None else keys[allowed[keys]]
            if len(keys) >= k or wanted >= count:
                return keys[:k]
            wanted = min(4 * wanted, count)

    for width in (64, 256):
        graph.expansion_search = width
        for name, keys in filters_of(data).items():
            allowed = None if keys is None else np.isin(np.arange(count), keys)
            among = np.arange(count) if keys is None else keys
            search = partial(nearest, allowed=allowed)
            figures = timed([partial(search, query, 10) for query in data.queries])
            for k in (10, 100):
                shares = []
                for query in data.queries:
                    truth = among[np.argsort(-(data.rows[among] @ query))[:k]]
                    shares.append(len(np.intersect1d(search(query, k), truth)) / len(truth))
                figures[f"recall@{k}"] = round(float(np.mean(shares)), 4)
            yield f"graph, width {width}, {name}", figures


def build(rows: Vectors, folder: Path) -> None:
    """An index of all rows, saved."""
    index = VectorMatrix(MODEL, dimension=rows.shape[1])
    index.add(np.arange(len(rows)), rows)
    index.save(folder, LogPosition(0, 0))


def load(folder: Path, dimension: int) -> VectorMatrix:
    """The index that `build` saved, which is there."""
    return VectorMatrix(MODEL, dimension=dimension, folder=folder)


def add_one(index: VectorMatrix, data: Data, key: int) -> None:
    """Add a row that resembles one there is."""
    index.add(np.array([key]), data.rows[key - len(data.rows)][None])


def searched(snapshot: MatrixSnapshot, data: Data, allowed: Keys | None) -> Figures:
    """Times for 10 hits, and recall among 10 and 100."""
    exact = MatrixSnapshot(snapshot.base, snapshot.tail, Tuning(candidates=len(snapshot)))
    figures = timed(
        [partial(snapshot.search, query, 10, allowed=allowed) for query in data.queries]
    )
    truth = [exact.search(query, 100, allowed=allowed) for query in data.queries]
    for k in (10, 100):
        found = [snapshot.search(query, k, allowed=allowed) for query in data.queries]
        shares = [_recall(*pair, k=k) for pair in zip(found, truth, strict=True)]
        figures[f"recall@{k}"] = round(float(np.mean(shares)), 4)
    return figures


def timed(calls: list[Callable[[], object]]) -> Figures:
    """Milliseconds of each call after a first round to warm up: median and 95th percentile."""
    for call in calls[:20]:
        call()
    times = np.array([_clocked(call) for call in calls])
    (wall, cpu), (slow, _) = np.quantile(times, (0.5, 0.95), axis=0)
    return {"cpu_ms": round(cpu, 3), "wall_ms": round(wall, 3), "wall_p95_ms": round(slow, 3)}


def timed_once(call: Callable[[], object]) -> Figures:
    """Milliseconds of one call."""
    wall, cpu = _clocked(call)
    return {"cpu_ms": round(cpu, 1), "wall_ms": round(wall, 1)}


def memory() -> Figures:
    """Megabytes that this process holds, the drawn rows included; Linux only.

    Those of files can be taken back by the system.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        name: round(int(fields[field].split()[0]) / 1024)
        for name, field in (("own_mb", "RssAnon"), ("files_mb", "RssFile"))
    }


def _clocked(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def _recall(found: Hits, truth: Hits, *, k: int) -> float:
    wanted = truth.keys[:k]
    return len(np.intersect1d(found.keys, wanted)) / len(wanted)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _text(line: dict[str, float | str]) -> str:
    figures = "  ".join(f"{name} {value}" for name, value in line.items() if name != "what")
    return f"{line['what']:<32}{figures}"
