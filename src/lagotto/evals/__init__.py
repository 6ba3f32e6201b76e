"""How well a base ranks: judged queries, metrics with intervals, a table of settings."""

from __future__ import annotations

from lagotto.evals.evaluation import Evaluation, SystemScores, evaluate
from lagotto.evals.judged_queries import JudgedQuery, read_beir, read_judgements

__all__ = [
    "Evaluation",
    "JudgedQuery",
    "SystemScores",
    "evaluate",
    "read_beir",
    "read_judgements",
]
