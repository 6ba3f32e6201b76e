"""How well a base ranks: judged queries, metrics with intervals, a table of settings."""

from __future__ import annotations

from lagotto.evals.evaluation import Evaluation, SystemScores, evaluate
from lagotto.evals.evidence import EvidenceScores, MarkedQuery, evaluate_packs, read_spans
from lagotto.evals.judged_queries import JudgedQuery, read_beir, read_judgements

__all__ = [
    "Evaluation",
    "EvidenceScores",
    "JudgedQuery",
    "MarkedQuery",
    "SystemScores",
    "evaluate",
    "evaluate_packs",
    "read_beir",
    "read_judgements",
    "read_spans",
]
