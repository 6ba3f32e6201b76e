"""A cluster of shards, simulated: response times, recall and rankings by the number of shards.

    python benchmarks/sharding.py [--chunks 100000] [--shards 1,2,4,8,16,32,64] [--queries 100]
                                  [--median 0.5] [--sigma 0.5] [--slow 0.01] [--pause 50] [--json]

The indexes are real: the embedded vector index (as a sketch) and BM25 in tantivy, one of each per
shard, with the chunks of `scale.py` distributed at random. The CPU time of every query in every
shard is measured. Simulated is what is between a client and its shards: a delay for each request,
drawn from a log-normal distribution, and now and then a pause of a machine. A search waits for the
slowest shard. A hedged request is sent to another copy when the first has not answered in the time
within which 95 % do; the faster answer counts.

Recall is that of ten and of a hundred vectors against an exact scan of everything. The ranking of
words is compared with that of a single index: `local` takes the scores of the shards as they are,
each with its own document frequencies and mean length; `global` scores the shards' best again with
those of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vectors
from lagotto.indexes.base import Hits, TextSnapshot, merge_hits, top_k
from lagotto.indexes.bm25 import idf, term_weight
from lagotto.indexes.folder import IndexFolder
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.tantivy.index import TantivyIndex, open_tantivy
from lagotto.indexes.text_query import Term, TextQuery
from lagotto.indexes.vectors import MatrixSnapshot, Tuning, VectorMatrix
from lagotto.terms import index_terms
from lagotto.testing.indexes import MemoryChangeLog
from scale import Corpus

K = 10
NEAREST, FETCHED = 100, 30
"""Chunks that a shard proposes by their vectors, and by their words."""

REPEATED = 5
"""Searches for each query; the fastest counts, since the machine may be busy."""

DRAWS = 400
HEDGED_AFTER = 0.95
SKETCHED = Tuning(exact_rows=0)
"""A sketch for any number of rows: shards of a real cluster have more than 20,000."""

Times = NDArray[np.float64]


class Texts:
    """Terms of all chunks, and their scores by the statistics of all."""

    def __init__(self, terms: Sequence[Sequence[str]], asked: Set[str]) -> None:
        self.terms = terms
        self._lengths = np.array([len(row) for row in terms], np.float64)
        self._postings: dict[str, list[tuple[int, int]]] = {term: [] for term in asked}
        for key, row in enumerate(terms):
            for term, times in Counter(row).items():
                if term in self._postings:
                    self._postings[term].append((key, times))

    def scores(self, query: TextQuery) -> Times:
        """The BM25 score of every chunk."""
        scores = np.zeros(len(self.terms))
        for (term,) in query.words:
            if postings := self._postings[term.text]:
                keys, times = np.array(postings).T
                weight = idf(len(keys), count=len(self.terms))
                scores[keys] += term_weight(
                    times.astype(np.float64),
                    self._lengths[keys],
                    mean=float(self._lengths.mean()),
                    idf=weight,
                )
        return scores


@dataclass(frozen=True, slots=True)
class Asked:
    """The words and the vector of a query."""

    text: TextQuery
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shard:
    """The indexes of some chunks; `keys` are theirs in the whole corpus, by those in the shard."""

    keys: NDArray[np.int64]
    vectors: MatrixSnapshot
    text: TextSnapshot


@dataclass(frozen=True, slots=True)
class Network:
    """Delays of requests in milliseconds."""

    median: float
    sigma: float
    slow: float
    pause: float

    def delays(self, shape: tuple[int, ...], chance: np.random.Generator) -> Times:
        """Log-normal delays; a share of requests meets a pause, of exponential length."""
        delays: Times = chance.lognormal(np.log(self.median), self.sigma, shape)
        return delays + (chance.random(shape) < self.slow) * chance.exponential(self.pause, shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--shards", default="1,2,4,8,16,32,64")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--median", type=float, default=0.5, help="delay of a request, ms")
    parser.add_argument("--sigma", type=float, default=0.5, help="of its logarithm")
    parser.add_argument("--slow", type=float, default=0.01, help="share that meets a pause")
    parser.add_argument("--pause", type=float, default=50.0, help="mean length of a pause, ms")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    network = Network(options.median, options.sigma, options.slow, options.pause)
    texts, vectors, queries = draw(options.chunks, options.queries)
    rows = []
    for count in map(int, options.shards.split(",")):
        rows.append(asyncio.run(measure(count, texts, vectors, queries, network)))
        if not options.json:
            print(_line(rows[-1], head=len(rows) == 1), flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))


def draw(chunks: int, count: int) -> tuple[Texts, Vectors, list[Asked]]:
    """The corpus as terms and vectors, and queries near some of its chunks."""
    corpus = Corpus(chunks)
    terms = [index_terms(chunk.text, "en") for entry in corpus.entries() for chunk in entry.chunks]
    queries = [
        Asked(TextQuery(tuple((Term(term),) for term in index_terms(q.text, "en"))), q.vector)
        for q in corpus.queries(count)
    ]
    asked = {term.text for query in queries for (term,) in query.text.words}
    return Texts(terms, asked), corpus.vectors, queries


async def measure(
    count: int, texts: Texts, vectors: Vectors, queries: Sequence[Asked], network: Network
) -> dict[str, Any]:
    """All figures for one number of shards."""
    with tempfile.TemporaryDirectory() as folder:
        shards = list(build(count, texts, vectors, Path(folder)))
        spent = np.empty((REPEATED, len(queries), count))
        found: dict[str, list[float]] = defaultdict(list)
        for turn in range(REPEATED):
            for number, query in enumerate(queries):
                near, words = [], []
                for index, shard in enumerate(shards):
                    start = time.thread_time()
                    some, others = await search(shard, query)
                    spent[turn, number, index] = (time.thread_time() - start) * 1000
                    near.append(some)
                    words.append(others)
                if turn == 0:
                    shares = recalls(near, vectors, query) | rankings(words, texts, query)
                    for name, share in shares.items():
                        found[name].append(share)
        times = spent.min(axis=0)
    return {
        "shards": count,
        "chunks_per_shard": len(vectors) // count,
        **{name: round(float(np.mean(shares)), 4) for name, shares in found.items()},
        "cpu_ms_per_shard": round(float(np.median(times)), 3),
        "cpu_ms_in_total": round(float(np.median(times.sum(axis=1))), 2),
        **simulated(times, network),
    }


def build(count: int, texts: Texts, vectors: Vectors, folder: Path) -> Iterator[Shard]:
    """Indexes of the chunks, distributed at random."""
    order = np.random.default_rng(count).permutation(len(vectors))
    for number, chosen in enumerate(np.array_split(order, count)):
        keys = np.sort(chosen)
        matrix = VectorMatrix("m", dimension=vectors.shape[1], tuning=SKETCHED)
        matrix.add(1 + np.arange(len(keys)), vectors[keys])
        matrix.save(folder / f"vectors-{number}", stamp=0)
        log = MemoryChangeLog()
        for key in keys.tolist():
            log.add(" ".join(texts.terms[key]), language="en")
        index = _text_index(folder / f"text-{number}")
        snapshot = index.follow(log)
        assert snapshot is not None
        yield Shard(keys, matrix.snapshot(), snapshot)


def _text_index(folder: Path) -> TantivyIndex:
    base_id = "a" * 32
    return open_tantivy(IndexSite(base_id, timeout=60, indexes=IndexFolder(folder, base_id)))


async def search(shard: Shard, query: Asked) -> tuple[Hits, Hits]:
    """What a shard finds by the vector and by the words."""
    near = shard.vectors.search(query.vector, NEAREST)
    words = await shard.text.search(query.text, k=FETCHED, allowed=None)
    return _renamed(shard, near), _renamed(shard, words)


def _renamed(shard: Shard, hits: Hits) -> Hits:
    return Hits(shard.keys[hits.keys - 1], hits.scores)


def recalls(near: Sequence[Hits], vectors: Vectors, query: Asked) -> dict[str, float]:
    """The share of the exact best that were found, by their number."""
    exact = vectors @ query.vector
    found = {}
    for k in (K, NEAREST):
        least = np.partition(exact, len(exact) - k)[len(exact) - k] - 1e-6
        merged = merge_hits(near, k=k)
        found[f"recall@{k}"] = float(np.count_nonzero(exact[merged.keys] >= least)) / k
    return found


def rankings(words: Sequence[Hits], texts: Texts, query: Asked) -> dict[str, float]:
    """How good the best chunks of the shards are, merged by local and by global scores.

    The share of ten that score at least as much, by global statistics, as the tenth best of all.
    """
    truth = texts.scores(query.text)
    wanted = min(K, int(np.count_nonzero(truth)))
    if not wanted:
        return {"words, local": 1.0, "words, global": 1.0}
    least = np.partition(truth, len(truth) - wanted)[len(truth) - wanted] - 1e-5
    every = np.concatenate([hits.keys for hits in words])
    merged = {
        "local": merge_hits(words, k=K).keys,
        "global": top_k(every, truth[every].astype(np.float32), K).keys,
    }
    return {
        f"words, {name}": float(np.count_nonzero(truth[keys] >= least)) / wanted
        for name, keys in merged.items()
    }


def simulated(times: Times, network: Network) -> dict[str, float]:
    """Response times of searches that wait for all shards, with and without hedged requests."""
    chance = np.random.default_rng(0)
    shape = (DRAWS, *times.shape)
    first = network.delays(shape, chance) + times
    after = float(np.quantile(first, HEDGED_AFTER))
    second = after + network.delays(shape, chance) + times
    hedged = np.where(first > after, np.minimum(first, second), first)
    figures = {}
    for name, answers in (("", first), ("hedged_", hedged)):
        slowest = answers.max(axis=2)
        for share in (50, 99):
            figures[f"{name}p{share}"] = round(float(np.percentile(slowest, share)), 1)
    figures["hedged_requests"] = round(float((first > after).mean()), 3)
    return figures


def _line(row: dict[str, Any], *, head: bool) -> str:
    shown = "| " + " | ".join(str(value) for value in row.values()) + " |"
    if not head:
        return shown
    return f"| {' | '.join(row)} |\n|{' --- |' * len(row)}\n{shown}"


if __name__ == "__main__":
    main()
