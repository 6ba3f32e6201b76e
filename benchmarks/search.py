"""Many queries at once against one by one, and how soon a cancelled search ends.

    python benchmarks/search.py [--queries 64] [--rounds 3]

On the documents of the demo with MiniLM. Batches: the same queries through `retrieve` and through
`retrieve_many`, alternating. Cancellation: late chunking of a long text is stopped at a random
moment while it embeds, from another thread; the time is from firing the token to the end of the
call.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.demo import corpus, questions
from lagotto.documents import Document
from lagotto.errors import SearchCancelled
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import CancellationToken, RequestContext


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cancellations", type=int, default=20)
    options = parser.parse_args()
    asyncio.run(measure(options))


async def measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncKnowledgeBase(Path(folder) / "kb.db") as base:
            with corpus() as documents:
                await base.add(documents)
            await compare_batches(base, options)
        async with AsyncKnowledgeBase(Path(folder) / "whole.db", chunker="document") as whole:
            await stop_searches(whole, options.cancellations)


async def compare_batches(base: AsyncKnowledgeBase, options: argparse.Namespace) -> None:
    asked = [item.question for item in questions()]
    queries = [f"{asked[n % len(asked)]} {n}" for n in range(options.queries)]
    await base.retrieve(queries[0])
    alone, together = [], []
    for _ in range(options.rounds):
        started = time.perf_counter()
        for query in queries:
            await base.retrieve(query)
        middle = time.perf_counter()
        await base.retrieve_many(queries)
        together.append((time.perf_counter() - middle) / len(queries))
        alone.append((middle - started) / len(queries))
    one, many = (1000 * statistics.median(times) for times in (alone, together))
    print(
        f"one by one {one:.1f} ms a query, {len(queries)} at once {many:.1f} ms: {one / many:.2f}x"
    )


async def stop_searches(base: AsyncKnowledgeBase, count: int) -> None:
    text = " ".join(f"Sentence number {n} of a long text on roots and dogs." for n in range(20_000))
    await base.add(Document(id="long", text=text))
    prefs = RetrievalPrefs.preset("aiblox", query_text="roots", cache={"write_chunk_cache": False})
    chance = random.Random(4)
    latencies = [await stopped(base, prefs, chance.uniform(0.2, 1.5)) for _ in range(count)]
    latencies.sort()
    print(
        f"{count} searches cancelled while embedding: ended after a median of "
        f"{1000 * statistics.median(latencies):.1f} ms, at most {1000 * latencies[-1]:.1f} ms"
    )


async def stopped(base: AsyncKnowledgeBase, prefs: RetrievalPrefs, after: float) -> float:
    token, fired = CancellationToken(), list[float]()

    def fire() -> None:
        fired.append(time.perf_counter())
        token.fire()

    timer = threading.Timer(after, fire)
    timer.start()
    try:
        await base.retriever.search(RequestContext(cancellation=token), prefs)
    except SearchCancelled:
        return time.perf_counter() - fired[0]
    finally:
        timer.cancel()
    raise SystemExit("the search ended before it was cancelled; give it more to do")


if __name__ == "__main__":
    main()
