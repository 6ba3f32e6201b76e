"""The same requests to a server of Lagotto, to Qdrant's and to txtai's API, as a ratio.

    python benchmarks/serve_peers.py [--chunks 10000] [--clients 1,8] [--seconds 4]
                                     [--qdrant BINARY] [--txtai PYTHON]

With Qdrant: the vectors of queries are given; half of the requests search vectors, half fuse
vectors and words, for which Qdrant has sparse vectors of term frequencies with its own IDF. With
txtai (PYTHON is that of an environment with txtai[api] and lagotto): the queries are texts, and
both embed them with MiniLM on onnxruntime and fuse vectors with BM25. All servers have the same
chunks, and answer with ten of them and their texts; they run at the same time and are asked in
turns. A ratio above 1 means that Lagotto answers more requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from http_load import Request, get, load, post
from lagotto.stores.base import Entry
from places import temporary_location
from scale import DIMENSION, Query, build
from served import EmbeddedCorpus, free_port, running, serving

ROUNDS = 3
TRANSFORM = """
import asyncio, numpy as np
from lagotto.embedders import create_embedder
known = dict(np.load("known.npy", allow_pickle=True).item())
embedder, loop = create_embedder("minilm"), asyncio.new_event_loop()
def transform(texts):
    if all(text in known for text in texts):
        return np.array([known[text] for text in texts])
    return loop.run_until_complete(embedder.embed(texts, role="query"))
"""
INDEX = """
import numpy as np, txtai
texts = list(np.load("known.npy", allow_pickle=True).item())
index = txtai.Embeddings(
    method="external", transform="vectors.transform", hybrid=True, content=True
)
index.index(texts)
index.save("index")
"""


SETTINGS = """
path: index
writable: false
embeddings: {method: external, transform: vectors.transform, hybrid: true, content: true}
"""


class KeptCorpus(EmbeddedCorpus):
    """A corpus that remembers the texts of its chunks."""

    def __init__(self, chunks: int) -> None:
        super().__init__(chunks)
        self.texts: list[str] = []

    def entries(self) -> Iterator[Entry]:
        """The entries; their texts are in `texts` afterwards."""
        for entry in super().entries():
            self.texts += [chunk.text for chunk in entry.chunks]
            yield entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--clients", default="1,8")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--qdrant")
    parser.add_argument("--txtai")
    options = parser.parse_args()
    with ExitStack() as stack:
        location = stack.enter_context(temporary_location("sqlite"))
        corpus = KeptCorpus(options.chunks)
        asyncio.run(build(location, corpus, None))
        queries = corpus.queries(400)
        url, _ = stack.enter_context(serving(location))
        pairs: list[tuple[str, str, Request, Request]] = []
        if options.qdrant:
            theirs = stack.enter_context(qdrant(options.qdrant, corpus))
            pairs.append(("qdrant", theirs, given_vectors(url, queries), asked(theirs, queries)))
        if options.txtai:
            theirs = stack.enter_context(txtai(options.txtai, corpus))
            pairs.append(("txtai", theirs, given_texts(url, queries), linked(theirs, queries)))
        for name, address, ours, other in pairs:
            for clients in map(int, options.clients.split(",")):
                compare(name, (url, ours), (address, other), clients, options.seconds)


def compare(
    name: str, ours: tuple[str, Request], theirs: tuple[str, Request], clients: int, seconds: float
) -> None:
    """Ask both in turns, and print the medians."""
    found: dict[str, list[dict[str, float]]] = {"lagotto": [], name: []}
    for _ in range(ROUNDS):
        for which, (url, request) in zip(found, (ours, theirs), strict=True):
            each = seconds / ROUNDS
            found[which].append(asyncio.run(load(url, request, clients=clients, seconds=each)))
    medians = {
        which: {key: float(np.median([row[key] for row in rows])) for key in rows[0]}
        for which, rows in found.items()
    }
    ratio = medians["lagotto"]["requests_s"] / medians[name]["requests_s"]
    print({"clients": clients, **medians, "ratio": round(ratio, 2)}, flush=True)


def given_vectors(url: str, queries: Sequence[Query]) -> Request:
    """Searches of Lagotto with the vectors of their queries."""

    def request(number: int) -> bytes:
        query = queries[number % len(queries)]
        body = {"query": query.text, "query_vector": query.vector.tolist(), "top_k": 10}
        mode = "hybrid" if number % 2 else "semantic"
        return post(url, "/v1/retrieve", {**body, "mode": mode})

    return request


def given_texts(url: str, queries: Sequence[Query]) -> Request:
    """Searches of Lagotto whose queries it embeds; each is a new one."""

    def request(number: int) -> bytes:
        text = f"{queries[number % len(queries)].text} {number}"
        return post(url, "/v1/retrieve", {"query": text, "top_k": 10})

    return request


@contextmanager
def qdrant(binary: str, corpus: KeptCorpus) -> Iterator[str]:
    """Qdrant's server with the chunks of the corpus."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "QDRANT__SERVICE__HTTP_PORT": str(port),
            "QDRANT__SERVICE__GRPC_PORT": str(free_port()),
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__TELEMETRY_DISABLED": "true",
        }
        with running(
            [binary], url=url, ready="/readyz", env={**os.environ, **settings}, cwd=Path(folder)
        ):
            _fill(url, corpus)
            yield url


def _fill(url: str, corpus: KeptCorpus) -> None:
    made = {
        "vectors": {"dense": {"size": DIMENSION, "distance": "Cosine"}},
        "sparse_vectors": {"words": {"modifier": "idf"}},
    }
    numbers = {word: number for number, word in enumerate(corpus.words)}
    with httpx.Client(base_url=url, timeout=120) as http:
        http.put("/collections/c", json=made).raise_for_status()
        for start in range(0, len(corpus.texts), 500):
            points = [
                {
                    "id": start + index,
                    "vector": {
                        "dense": corpus.vectors[start + index].tolist(),
                        "words": sparse(text, numbers),
                    },
                    "payload": {"text": text},
                }
                for index, text in enumerate(corpus.texts[start : start + 500])
            ]
            http.put("/collections/c/points?wait=true", json={"points": points}).raise_for_status()


def sparse(text: str, numbers: dict[str, int]) -> dict[str, Any]:
    """Term frequencies, saturated as BM25 does."""
    counts = Counter(numbers[word] for word in text.split() if word in numbers)
    values = [2.2 * count / (count + 1.2) for count in counts.values()]
    return {"indices": list(counts), "values": values}


def asked(url: str, queries: Sequence[Query]) -> Request:
    """The searches of `given_vectors`, as Qdrant takes them."""
    numbers: dict[str, int] = {}
    words = EmbeddedCorpus(5).words
    numbers.update({word: number for number, word in enumerate(words)})
    bodies = []
    for number, query in enumerate(queries):
        dense = query.vector.tolist()
        plain = {"query": dense, "using": "dense", "limit": 10, "with_payload": True}
        legs = [
            {"query": dense, "using": "dense", "limit": 100},
            {"query": sparse(query.text, numbers), "using": "words", "limit": 100},
        ]
        fused = {"prefetch": legs, "query": {"fusion": "rrf"}, "limit": 10, "with_payload": True}
        bodies.append(post(url, "/collections/c/points/query", fused if number % 2 else plain))
    return lambda number: bodies[number % len(bodies)]


@contextmanager
def txtai(python: str, corpus: KeptCorpus) -> Iterator[str]:
    """txtai's API with the chunks of the corpus, and MiniLM for its queries."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = dict(zip(corpus.texts, corpus.vectors, strict=True))
        np.save(folder / "known.npy", np.array(known, dtype=object))
        (folder / "vectors.py").write_text(TRANSFORM)
        (folder / "index.py").write_text(INDEX)
        (folder / "app.yml").write_text(SETTINGS)
        env = {
            **os.environ,
            "PYTHONPATH": name,
            "CONFIG": "app.yml",
            "ALLOW_RESOLVE_TRANSFORM": "True",
        }
        subprocess.run([python, "index.py"], cwd=folder, env=env, check=True)
        command = [python, "-m", "uvicorn", "txtai.api:app", "--port", str(port), "--no-access-log"]
        with running(command, url=url, ready="/count", env=env, cwd=folder):
            yield url


def linked(url: str, queries: Sequence[Query]) -> Request:
    """The searches of `given_texts`, as txtai takes them."""

    def request(number: int) -> bytes:
        text = f"{queries[number % len(queries)].text} {number}"
        return get(url, f"/search?query={quote(text)}&limit=10")

    return request


if __name__ == "__main__":
    main()
