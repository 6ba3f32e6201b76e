"""Exact scores, and a sketch of one bit per dimension that selects the rows to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lagotto.documents import Vector, Vectors


@dataclass(frozen=True, slots=True)
class Tuning:
    """Values measured by `benchmarks/vectors.py`; tests use smaller ones.

    Up to `exact_rows` rows all are scored. Beyond, a sketch proposes `candidates` rows, plus
    `per_hit` for every requested hit, plus one for every `rows_per_candidate` rows, since more
    rows have more near duplicates. A base is rewritten when more than `uncompacted_rows`,
    and more than a quarter of it, are new or removed.
    """

    exact_rows: int = 20_000
    candidates: int = 600
    per_hit: int = 2
    rows_per_candidate: int = 250
    uncompacted_rows: int = 2_000


Positions = NDArray[np.intp]
Scores = NDArray[np.float32]

ROWS_GATHERED = 4096
"""Rows copied at a time; they should fit into the processor's cache."""


def dots(rows: Vectors, query: Vector, positions: Positions | None = None) -> Scores:
    """The inner product of `query` with every row, or with those at `positions`."""
    if positions is None or 3 * len(positions) > len(rows):  # sequential reads are faster
        scores: Scores = np.vecdot(rows, query)
        return scores if positions is None else scores.take(positions)
    scores = np.empty(len(positions), dtype=np.float32)
    for start in range(0, len(positions), ROWS_GATHERED):
        some = slice(start, start + ROWS_GATHERED)
        scores[some] = np.vecdot(rows.take(positions[some], axis=0), query)
    return scores


Codes = NDArray[np.uint64]
"""64 bits of every row per line: the shape is (bits / 64, rows)."""

Distances = NDArray[np.uint16]
"""16 bits hold a weighted distance of up to 9,362 dimensions."""

WORD = 64
LEAST_BITS = 256
"""The least bits of a row; a vector of fewer dimensions is rotated more than once."""

SEED = 20_240_229
ROWS_SAMPLED = 65_536
ROWS_ENCODED = 16_384
ROWS_SCANNED = 65_536
"""Rows sampled, encoded and scanned at a time."""

POOL_PER_CANDIDATE = 4
"""Rows whose weighted distance is computed, for each row that is kept."""

SHARE_OF_BITS = 2 / 3
"""The share of the bits by which these rows are chosen. `benchmarks/scale.py`, a million chunks: as
good as all bits (recall@100 .982), in a third less time."""

DISTANCES_PER_SAMPLE = 16
"""One in this many distances is sampled to estimate where the least ones end."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the bits are computed from: the mean of the rows, and one direction per bit."""

    mean: Vector
    directions: Vectors

    @classmethod
    def fitted(cls, rows: Vectors) -> Self:
        sample = rows[:: -(-len(rows) // ROWS_SAMPLED)]
        mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls(mean, _directions(rows.shape[1]))

    @property
    def words(self) -> int:
        """How many words of 64 bits a row takes."""
        return len(self.directions) // WORD

    def encode(self, rows: Vectors) -> Codes:
        """The bits of `rows`, in columns."""
        codes = np.empty((self.words, len(rows)), dtype=np.uint64)
        for start in range(0, len(rows), ROWS_ENCODED):
            some = slice(start, start + ROWS_ENCODED)
            codes[:, some] = _packed((rows[some] - self.mean) @ self.directions.T > 0)
        return codes

    def encode_query(self, query: Vector) -> tuple[Codes, list[Codes]]:
        """The signs of a query, and their weights: numbers from 0 to 7 in three bit planes."""
        turned = np.vecdot(self.directions, query - self.mean)
        size = np.abs(turned)
        weights = np.rint(size * (7 / max(float(size.max()), 1e-9))).astype(np.uint8)
        planes = [_packed((weights & bit)[None] > 0) for bit in (1, 2, 4)]
        return _packed(turned[None] > 0), planes


@dataclass(frozen=True, slots=True)
class Sketch:
    frame: Frame
    codes: Codes

    @classmethod
    def of(cls, rows: Vectors) -> Self:
        frame = Frame.fitted(rows)
        return cls(frame, frame.encode(rows))

    def nearest(self, query: Vector, *, count: int, among: Positions | None = None) -> Positions:
        """The positions of about `count` rows that are nearest to `query`, never fewer.

        `among` are the positions to choose from. All rows are compared by the number of differing
        bits, in the share of the bits used for this; the closest of them by all bits, weighted by
        the query.
        """
        signs, planes = self.frame.encode_query(query)
        seen = math.ceil(SHARE_OF_BITS * self.frame.words)
        codes = self.codes[:seen]
        if among is None:
            distances = _distances(codes, signs[:seen])
        elif 3 * len(among) > codes.shape[1]:  # copying the codes would take longer
            distances = _distances(codes, signs[:seen]).take(among)
        else:
            distances = _distances(_gathered(codes, among), signs[:seen])
        pool = closest(distances, count=POOL_PER_CANDIDATE * count)
        if among is not None:
            pool = among[pool]
        differing = _gathered(self.codes, pool) ^ signs
        weighed = np.zeros(len(pool), dtype=np.uint16)
        for bit, plane in enumerate(planes):
            weighed += np.bitwise_count(differing & plane).sum(axis=0, dtype=np.uint16) << bit
        return pool[closest(weighed, count=count)]


def closest(distances: Distances, *, count: int) -> Positions:
    """The positions of the `count` least distances, and of all that equal the last.

    Among many distances, the cut is first estimated from a sample.
    """
    if len(distances) > 4 * DISTANCES_PER_SAMPLE * count:
        limit = _limit(
            distances[::DISTANCES_PER_SAMPLE], count=math.ceil(1.1 * count / DISTANCES_PER_SAMPLE)
        )
        positions = np.flatnonzero(distances <= limit)
        if len(positions) >= count:
            return positions
    return np.flatnonzero(distances <= _limit(distances, count=count))


def _limit(distances: Distances, *, count: int) -> int:
    """The `count`-th least distance; a plain number, which doesn't widen comparisons."""
    return int(np.searchsorted(np.cumsum(np.bincount(distances)), count))


def _gathered(codes: Codes, positions: Positions) -> Codes:
    """The codes of some rows; line by line, since the lines of a tail are not contiguous."""
    return np.stack([line.take(positions) for line in codes])


def _distances(codes: Codes, signs: Codes) -> Distances:
    """The number of bits in which each row differs from the query."""
    result = np.empty(codes.shape[1], dtype=np.uint16)
    for start in range(0, len(result), ROWS_SCANNED):
        some = slice(start, start + ROWS_SCANNED)
        differing = np.bitwise_count(codes[:, some] ^ signs)
        np.add.reduce(differing, axis=0, dtype=np.uint16, out=result[some])
    return result


def _packed(bits: NDArray[np.bool_]) -> Codes:
    """Rows of bits as columns of 64."""
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64).T


def _directions(dimension: int) -> Vectors:
    """Random orthogonal directions, in as many sets as fill the words."""
    bits = max(LEAST_BITS, -(-dimension // WORD) * WORD)
    random = np.random.default_rng(SEED)
    turns = [
        np.linalg.qr(random.standard_normal((dimension, dimension)))[0]
        for _ in range(-(-bits // dimension))
    ]
    return np.concatenate(turns)[:bits].astype(np.float32)
