"""When to stop being exact."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """What `benchmarks/vectors.py` found best; tests make the numbers small.

    Up to `exact_rows` rows every one is scored. Beyond, a sketch proposes `candidates` of them,
    another `per_hit` for every hit that is asked for, and one more for every `rows_per_candidate`
    rows: the more rows, the more of them look alike. A base is worth writing again when more
    than `loose_rows` and more than a quarter of it are new or dead.
    """

    exact_rows: int = 20_000
    candidates: int = 600
    per_hit: int = 2
    rows_per_candidate: int = 400
    loose_rows: int = 2_000

    def candidates_for(self, k: int, *, rows: int) -> int:
        """How many of `rows` to score for the best `k`."""
        return self.candidates + self.per_hit * k + rows // self.rows_per_candidate
