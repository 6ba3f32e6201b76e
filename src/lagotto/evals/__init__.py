"""How well a base ranks: judged queries, metrics with intervals, a table of settings."""

from lagotto.evals.evaluation import Evaluation as Evaluation
from lagotto.evals.evaluation import EvidenceScores as EvidenceScores
from lagotto.evals.evaluation import SystemScores as SystemScores
from lagotto.evals.evaluation import evaluate as evaluate
from lagotto.evals.evaluation import evaluate_packs as evaluate_packs
from lagotto.evals.judged_queries import JudgedQuery as JudgedQuery
from lagotto.evals.judged_queries import MarkedQuery as MarkedQuery
from lagotto.evals.judged_queries import read_beir as read_beir
from lagotto.evals.judged_queries import read_judgements as read_judgements
from lagotto.evals.judged_queries import read_spans as read_spans
