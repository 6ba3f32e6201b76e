"""The demo: bundled documents, and questions that need hybrid search.

Some questions share no word with their answers, some ask for a code that vectors don't capture,
some are misspelt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Literal

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.ingest import AddReport, OnProgress
from lagotto.documents import Record
from lagotto.results import RetrievalResult
from lagotto.retrieval.documents import Snippet, snippet

COLLECTION = "demo"
TOP_K = 10

DemoMode = Literal["semantic", "keyword", "hybrid"]
MODES: tuple[DemoMode, ...] = ("semantic", "keyword", "hybrid")


class Question(Record):
    """A question, its answer, the file with the answer, and why it is hard to find.

    `evidence` is a piece of text that a passage with the answer contains.
    """

    question: str
    answer: str
    document: str
    why: str
    evidence: str


class DemoOutcome(Record):
    """The rank of the right document in each mode (None: not found), the best hit, and its snippet.

    The snippet is the part of the best hit that matches the question best.
    """

    question: Question
    ranks: Mapping[DemoMode, int | None]
    hit: RetrievalResult | None
    snippet: Snippet | None = None

    @property
    def is_answered(self) -> bool:
        """Whether hybrid search has the right document first, and its snippet holds the answer."""
        has_evidence = self.snippet is not None and self.question.evidence in self.snippet.text
        return self.ranks["hybrid"] == 1 and has_evidence


def questions() -> list[Question]:
    """The questions of the demo."""
    text = (files(__name__) / "questions.json").read_text(encoding="utf-8")
    return [Question(**entry) for entry in json.loads(text)]


def corpus() -> AbstractContextManager[Path]:
    """The folder of the demo's documents."""
    return as_file(files(__name__) / "corpus")


def add_corpus(kb: KnowledgeBase, *, progress: OnProgress | None = None) -> AddReport:
    """Add the documents of the demo, as a collection of their own."""
    with corpus() as folder:
        return kb.add(folder, collection=COLLECTION, progress=progress)


def ask(kb: KnowledgeBase, question: Question) -> DemoOutcome:
    """Search for a question in each mode; the hit is the best of hybrid search."""
    hits_by_mode = {
        mode: kb.retrieve(question.question, mode=mode, collection=COLLECTION, top_k=TOP_K)
        for mode in MODES
    }
    ranks = {mode: document_rank(hits, question.document) for mode, hits in hits_by_mode.items()}
    hit = next(iter(hits_by_mode["hybrid"]), None)
    passage = snippet(hit.content, question.question, language=hit.language) if hit else None
    return DemoOutcome(question=question, ranks=ranks, hit=hit, snippet=passage)


def document_rank(hits: Sequence[RetrievalResult], name: str) -> int | None:
    """The rank of the file `name` among the documents of `hits`, each counted once."""
    sources = dict.fromkeys(PurePosixPath(hit.document_source).name for hit in hits)
    return next((rank for rank, source in enumerate(sources, 1) if source == name), None)


def examples(outcomes: Sequence[DemoOutcome]) -> list[DemoOutcome]:
    """A question that full text misses, one that vectors miss, and the last one, all answered."""
    right = [outcome for outcome in outcomes if outcome.is_answered]
    chosen: list[DemoOutcome] = []
    for mode in ("keyword", "semantic"):
        chosen += [outcome for outcome in right if outcome.ranks[mode] != 1][:1]
    return list({each.question.question: each for each in (*chosen, *right[-1:])}.values())
