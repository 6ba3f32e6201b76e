"""What costly requests do to others: health, searches and the end of a server under attack.

    python benchmarks attacks [--chunks 10000] [--seconds 15]

A base with the texts of scale.py, and a server with its default limits, on the loopback interface.
Each attack is sent by 8 clients of another process, with one key, while /healthz is asked every
20 ms, and two clients with keys of their own search with five words. Then SIGTERM: seconds until
the server has ended. Milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from lagotto.cli.connect import open_store
from lagotto.server.access import ApiKeys
from load import Connection, EmbeddedCorpus, get, post, print_table, serving
from places import temporary_place
from synthetic import build

GREEDY = 8
Body = dict[str, Any]


def _wide(conditions: int) -> Callable[[str, int], tuple[str, Body]]:
    def attack(words: str, number: int) -> tuple[str, Body]:
        conditions_of = [{"topic": f"{number}-{i}"} for i in range(conditions)]
        return "/v1/retrieve", {"query": words[:40], "filters": {"$or": conditions_of}}

    return attack


def _deep(path: str, **more: Any) -> Callable[[str, int], tuple[str, Body]]:
    def attack(words: str, number: int) -> tuple[str, Body]:
        return path, {"query": f"{words} {number}", "top_k": 1000, **more}

    return attack


ATTACKS = {
    "top 1000, 200 words": _deep("/v1/search"),
    "with a timeout of 2 s": _deep("/v1/search", timeout=2),
    "highlights": _deep("/v1/retrieve", highlight=True),
    "1,000 conditions": _wide(1_000),
    "36,000 conditions": _wide(36_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    with temporary_place("sqlite") as place, ProcessPoolExecutor(1) as attacker:
        corpus = EmbeddedCorpus(options.chunks)
        asyncio.run(build(place.location, corpus, None))
        keys = asyncio.run(_keys(place.location))
        words = " ".join(query.text for query in corpus.queries(400)).split()
        rows = []
        for name in ATTACKS:
            bodies = attacker.submit(prepared, name, words).result()
            with serving(place.location, concurrency=16, key=keys[0]) as (url, _):
                attack = attacker.submit(attacked, url, bodies, keys[0], options.seconds)
                others = asyncio.run(waiting(url, words, keys[1:], options.seconds - 1))
                ending = time.monotonic()
            ended = round(time.monotonic() - ending, 2)
            rows.append({"attack": name, **others, **attack.result(), "end_s": ended})
    print_table(rows)


async def _keys(location: str) -> list[str]:
    async with open_store(location) as store:
        keys = ApiKeys(store.keyed_values)
        return [(await keys.create(f"{number}"))[0] for number in range(3)]


def prepared(name: str, words: list[str]) -> list[tuple[str, Body]]:
    """The requests of an attack: those of 40,000 conditions take seconds to make."""
    return [
        ATTACKS[name](" ".join((words[number:] + words)[:200]), number)
        for number in range(2 * GREEDY)
    ]


def attacked(url: str, bodies: list[tuple[str, Body]], key: str, seconds: float) -> Body:
    """Attack for so long: the answers by their status, and how long they took."""
    requests = [post(url, path, body, key) for path, body in bodies]
    spent, statuses = asyncio.run(_clients(url, requests, GREEDY, seconds))
    return {**_figures("attack", spent), "statuses": dict(statuses)}


async def _clients(
    url: str, requests: list[bytes], clients: int, seconds: float, pause: float = 0.0
) -> tuple[list[float], Counter[int]]:
    """Milliseconds and statuses of so many clients, each with its share of the requests."""
    spent: list[float] = []
    statuses: Counter[int] = Counter()

    async def client(mine: list[bytes]) -> None:
        connection, number = Connection(url), 0
        while time.perf_counter() < until:
            started = time.perf_counter()
            try:
                status, _ = await connection.ask(mine[number % len(mine)])
            except ConnectionError:
                return
            spent.append(1000 * (time.perf_counter() - started))
            statuses[status] += 1
            number += 1
            await asyncio.sleep(pause)
        connection.close()

    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(requests[number::clients]) for number in range(clients)))
    return spent, statuses


async def waiting(url: str, words: list[str], keys: list[str], seconds: float) -> Body:
    """What health and others' searches take meanwhile."""
    light = [
        post(url, "/v1/retrieve", {"query": " ".join(words[5 * i : 5 * i + 5])}, keys[i % 2])
        for i in range(400)
    ]
    (health, _), (searches, statuses) = await asyncio.gather(
        _clients(url, [get(url, "/healthz")], 1, seconds, pause=0.02),
        _clients(url, light, len(keys), seconds),
    )
    figures = {**_figures("health", health), **_figures("light", searches)}
    return {**figures, "light_statuses": dict(statuses)}


def _figures(name: str, spent: list[float]) -> Body:
    """Of no request at all, none."""
    if not spent:
        return {f"{name}_p50": None, f"{name}_p99": None}
    p50, p99 = np.percentile(spent, (50, 99)).round(1).tolist()
    return {f"{name}_p50": p50, f"{name}_p99": p99}
