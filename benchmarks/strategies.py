"""A server asked leg by leg, or by one statement: how long a search takes.

    python benchmarks/strategies.py [--chunks 2000,20000] [--queries 100] [--delay 1] [--json]

The texts, vectors and queries of scale.py, on PostgreSQL; hybrid searches without the fuzzy leg,
query vectors given. Both ways alternate, query by query. Medians of wall time in milliseconds,
once at the server's socket, and once through a proxy that holds back what either side says for so
many milliseconds, as a network would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import quote

import numpy as np

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.filters import And, Eq, Filter
from lagotto.prefs import RetrievalPrefs
from scale import Corpus, GivenVectors, Query, build
from servers import PostgresServer

SOCKET = ".s.PGSQL.5432"
STRATEGIES = ("legs", "statement")
QUERIES = {
    "bm25": {"rank_func": "bm25"},
    "ts_rank_cd, any word": {"rank_func": "ts_rank_cd"},
    "ts_rank_cd, all words": {"rank_func": "ts_rank_cd", "mode": "plain"},
}
FILTERS: dict[str, Filter] = {"all": And(), "1 %": Eq("number", 0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", default="2000,20000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--delay", type=float, default=1.0, help="milliseconds each way")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {}
    for chunks in map(int, options.chunks.split(",")):
        with PostgresServer({"shared_buffers": "1GB"}) as server:
            corpus = Corpus(chunks)
            asyncio.run(build(server.url(), corpus, None))
            queries = corpus.queries(options.queries)
            figures[f"{chunks} chunks"] = asyncio.run(measured(server.url(), queries))
            with delayed(server.folder, options.delay / 1000) as location:
                name = f"{chunks} chunks, {options.delay:g} ms each way"
                figures[name] = asyncio.run(measured(location, queries))
    print(json.dumps(figures, indent=2) if options.json else table(figures))


async def measured(location: str, queries: list[Query]) -> dict[str, dict[str, float]]:
    """Medians by kind of query and strategy."""
    prefs = RetrievalPrefs(fuzzy={"mode": "off"})
    walls: dict[tuple[str, str], list[float]] = {}
    embedder = GivenVectors()
    embedder.vectors = {query.text: query.vector for query in queries}
    async with AsyncKnowledgeBase(location, embedder=embedder, prefs=prefs) as base:
        for warm, query in product((False, True), queries):
            for (kind, fts), (name, where) in product(QUERIES.items(), FILTERS.items()):
                for strategy in STRATEGIES:
                    began = time.perf_counter()
                    await base.retrieve(query.text, filters=where, fts=fts, strategy=strategy)
                    if warm:
                        taken = (time.perf_counter() - began) * 1000
                        walls.setdefault((f"{kind}; {name}", strategy), []).append(taken)
    figures: dict[str, dict[str, float]] = {}
    for (kind, strategy), all_taken in walls.items():
        figures.setdefault(kind, {})[strategy] = round(float(np.median(all_taken)), 2)
    return figures


def table(figures: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = []
    for name, kinds in figures.items():
        lines += ["", f"{name:44}" + "".join(f"{strategy:>12}" for strategy in STRATEGIES)]
        for kind, medians in kinds.items():
            values = "".join(f"{medians[strategy]:12.2f}" for strategy in STRATEGIES)
            lines.append(f"  {kind:42}{values}")
    return "\n".join(lines)


@contextmanager
def delayed(folder: Path, seconds: float) -> Iterator[str]:
    """The address of a proxy before the server whose socket is in `folder`."""
    with tempfile.TemporaryDirectory() as own:
        proxy = get_context("spawn").Process(
            target=_run_proxy, args=(str(folder / SOCKET), f"{own}/{SOCKET}", seconds)
        )
        proxy.start()
        try:
            while not Path(own, SOCKET).exists():
                time.sleep(0.01)
            yield f"postgresql://postgres@/postgres?host={quote(own)}"
        finally:
            proxy.terminate()
            proxy.join()


def _run_proxy(server: str, own: str, seconds: float) -> None:
    asyncio.run(_serve(server, own, seconds))


async def _serve(server: str, own: str, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_unix_connection(server)
        await asyncio.gather(_passed(reader, here, seconds), _passed(there, writer, seconds))

    listening = await asyncio.start_unix_server(connected, own)
    await listening.serve_forever()


async def _passed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Pass on everything, each piece so many seconds after it came."""
    loop = asyncio.get_running_loop()

    def deliver(data: bytes) -> None:
        if data:
            writer.write(data)
        else:
            writer.close()

    data = b"more"
    while data:
        data = await reader.read(2**16)
        loop.call_later(seconds, deliver, data)


if __name__ == "__main__":
    main()
