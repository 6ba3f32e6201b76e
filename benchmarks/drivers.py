"""psycopg 3 against asyncpg, on what the PostgreSQL store does with a driver.

    pip install asyncpg
    python benchmarks/drivers.py [--rounds 200]

A round trip, the postings of five words (128 kB each), a vector as a parameter with a hundred
scores as the answer, and COPY of a batch of vectors; both drivers alternate on one server. Medians
in milliseconds: wall time, and CPU time of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import psycopg

from lagotto.stores.postgres.types import END, HEADER, VectorParameter, register, vector_bytes
from servers import PostgresServer

DIMENSION, ROWS, COPIED = 384, 5_000, 200
POSTINGS = 128_000

SETUP = f"""
CREATE EXTENSION vector;
CREATE TABLE posting (term int PRIMARY KEY, records bytea);
ALTER TABLE posting ALTER COLUMN records SET STORAGE EXTERNAL;
INSERT INTO posting SELECT n, decode(repeat('0badcafe', {POSTINGS} / 4), 'hex')
FROM generate_series(1, 5) AS n;
CREATE TABLE embedding (key bigint, vector vector({DIMENSION}));
CREATE TABLE target (key bigint, vector vector({DIMENSION}));
"""
NEAREST = "SELECT key, -(vector <#> {}) FROM embedding ORDER BY vector <#> {} LIMIT 100"

Job = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Times:
    """How long a job took, time after time."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def take(self, job: Job) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        await job()
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.cpu.append((time.process_time() - cpu) * 1000)

    def __str__(self) -> str:
        return f"{np.median(self.wall):7.2f} wall {np.median(self.cpu):7.2f} CPU"


def batch(rows: int) -> bytes:
    """Vectors as COPY takes them in binary."""
    chance = np.random.default_rng(0)
    encoded = []
    for key in range(rows):
        vector = vector_bytes(chance.standard_normal(DIMENSION).astype(np.float32))
        encoded.append(struct.pack(">hiqi", 2, 8, key, len(vector)) + vector)
    return b"".join([HEADER, *encoded, END])


def with_psycopg(driver: psycopg.AsyncConnection[tuple[object, ...]]) -> dict[str, Job]:
    vector, copied = VectorParameter(np.ones(DIMENSION, np.float32)), batch(COPIED)

    async def ask(statement: str, **asked: object) -> None:
        async with driver.cursor(binary=True) as cursor:
            await cursor.execute(statement.encode(), asked or None)
            await cursor.fetchall()

    async def copy() -> None:
        statement = "COPY target FROM STDIN (FORMAT BINARY)"
        async with driver.cursor() as cursor, cursor.copy(statement) as writer:
            await writer.write(copied)

    nearest = NEAREST.format("%(q)s", "%(q)s")
    return {
        "round trip": lambda: ask("SELECT 1"),
        "postings of five words": lambda: ask("SELECT term, records FROM posting"),
        "vector in, scores out": lambda: ask(nearest, q=vector),
        f"COPY of {COPIED} vectors": copy,
    }


def with_asyncpg(driver: Any) -> dict[str, Job]:
    vector, copied = np.ones(DIMENSION, np.float32), batch(COPIED)

    async def pieces() -> AsyncIterator[bytes]:
        yield copied

    async def copy() -> None:
        await driver.copy_to_table("target", source=pieces(), format="binary")

    nearest = NEAREST.format("$1", "$1")
    return {
        "round trip": lambda: driver.fetch("SELECT 1"),
        "postings of five words": lambda: driver.fetch("SELECT term, records FROM posting"),
        "vector in, scores out": lambda: driver.fetch(nearest, vector),
        f"COPY of {COPIED} vectors": copy,
    }


async def compare(server: PostgresServer, rounds: int) -> None:
    one = await psycopg.AsyncConnection.connect(server.url(), autocommit=True)
    await one.execute(SETUP.encode())
    found = await (await one.execute("SELECT 'vector'::regtype::oid::int")).fetchone()
    register(one, vector_oid=int(str(found[0])) if found else 0)
    async with one.cursor() as cursor, cursor.copy("COPY embedding FROM STDIN BINARY") as copy:
        await copy.write(batch(ROWS))
    asyncpg = import_module("asyncpg")  # no dependency of ours
    other = await asyncpg.connect(host=str(server.folder), user="postgres", database="postgres")
    await other.set_type_codec(
        "vector", encoder=vector_bytes, decoder=bytes, schema="public", format="binary"
    )
    jobs = {"psycopg": with_psycopg(one), "asyncpg": with_asyncpg(other)}
    times = {(name, job): Times() for name in jobs for job in jobs[name]}
    for _ in range(rounds):
        for (name, job), taken in times.items():
            await taken.take(jobs[name][job])
    for (name, job), taken in times.items():
        print(f"{job:26}{name:10}{taken}")
    await one.close()
    await other.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with PostgresServer() as server:
        asyncio.run(compare(server, options.rounds))


if __name__ == "__main__":
    main()
