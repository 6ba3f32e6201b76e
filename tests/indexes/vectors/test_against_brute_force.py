"""Random changes, saves and searches, compared with a loop over all rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lagotto.documents import Vector
from lagotto.indexes.base import Hits, LogPosition
from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.sketch import Tuning
from tests.indexes.vectors.made import Keys, keys_of, ranked, unit_vectors

pytestmark = pytest.mark.slow

POOL = unit_vectors(0, count=8, dimension=5)
"""Few vectors, so that rows are often equal and scores tied."""

KEYS = st.integers(0, 60)
QUERIES = st.integers(0, len(POOL) - 1).map(lambda number: POOL[number])
ALLOWED = st.none() | st.sets(KEYS).map(lambda keys: np.array(sorted(keys), dtype=np.int64))


class IndexMachine(RuleBasedStateMachine):
    """An index, and a dict that must hold the same."""

    tuning: ClassVar[Tuning] = Tuning()

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.index = VectorMatrix("m", dimension=5, tuning=self.tuning)
        self.rows: dict[int, Vector] = {}
        self.saved: dict[int, Vector] = {}
        self.saves = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            del self.index
            self.folder.cleanup()

    @rule(pairs=st.lists(st.tuples(KEYS, QUERIES), max_size=40))
    def add(self, pairs: list[tuple[int, Vector]]) -> None:
        vectors = np.array([vector for _, vector in pairs], dtype=np.float32).reshape(-1, 5)
        self.index.add(keys_of(*(key for key, _ in pairs)), vectors)
        self.rows |= dict(pairs)

    @rule(keys=st.lists(KEYS, max_size=15))
    def remove(self, keys: list[int]) -> None:
        self.index.remove(keys_of(*keys))
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}

    @rule()
    def save(self) -> None:
        self.saves += 1
        self.index.save(Path(self.folder.name), LogPosition(self.saves, 0))
        self.saved = dict(self.rows)
        assert not self.index.wants_compaction

    @precondition(lambda self: self.saves)
    @rule()
    def open_again(self) -> None:
        folder = Path(self.folder.name)
        loaded = VectorMatrix("m", dimension=5, tuning=self.tuning, folder=folder)
        assert loaded.saved == LogPosition(self.saves, 0)
        self.index, self.rows = loaded, dict(self.saved)

    @rule(query=QUERIES, k=st.integers(1, 70), allowed=ALLOWED)
    def search(self, query: Vector, k: int, allowed: Keys | None) -> None:
        self.check(self.index.snapshot.search(query, k, allowed=allowed), query, k, allowed)

    @rule(query=QUERIES, keys=st.lists(st.integers(-3, 70), max_size=20))
    def score(self, query: Vector, keys: list[int]) -> None:
        scores = self.index.snapshot.scores(query, keys_of(*keys)).tolist()
        for key, score in zip(keys, scores, strict=True):
            assert score == (np.vecdot(self.rows[key], query) if key in self.rows else 0)

    @invariant()
    def same_keys(self) -> None:
        if hasattr(self, "index"):
            assert self.index.snapshot.keys.tolist() == sorted(self.rows)
            assert len(self.index.snapshot) == len(self.rows)

    def check(self, hits: Hits, query: Vector, k: int, allowed: Keys | None) -> None:
        expected = ranked(self.rows, query, k, allowed)
        assert list(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True)) == expected


class SketchMachine(IndexMachine):
    """The same where a sketch chooses: it may miss a row, but does nothing else wrong."""

    tuning = Tuning(exact_rows=4, candidates=1, per_hit=1, uncompacted_rows=4)

    def check(self, hits: Hits, query: Vector, k: int, allowed: Keys | None) -> None:
        scores = dict(ranked(self.rows, query, len(self.rows), allowed))
        pairs = list(zip(hits.keys.tolist(), hits.scores.tolist(), strict=True))
        assert len(set(hits.keys.tolist())) == len(hits) == min(k, len(scores))
        assert all(scores[key] == score for key, score in pairs)
        assert pairs == sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


TestExact = IndexMachine.TestCase
TestExact.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSketch = SketchMachine.TestCase
TestSketch.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
