"""From how many rows on a sketch is used, and how many rows it proposes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Values measured by `benchmarks/vectors.py`; tests use smaller ones.

    Up to `exact_rows` rows all are scored. Beyond, a sketch proposes `candidates` rows, plus
    `per_hit` for every requested hit, plus one for every `rows_per_candidate` rows, since more
    rows have more near duplicates. A base is rewritten when more than `loose_rows`, and more than
    a quarter of it, are new or dead.
    """

    exact_rows: int = 20_000
    candidates: int = 600
    per_hit: int = 2
    rows_per_candidate: int = 400
    loose_rows: int = 2_000

    def candidates_for(self, k: int, *, rows: int) -> int:
        """How many of `rows` to score for the best `k`."""
        return self.candidates + self.per_hit * k + rows // self.rows_per_candidate
