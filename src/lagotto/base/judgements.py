"""Judgements: what people said of a result for a query, kept in the base, read by evaluation.

A judgement is about a passage, named by its citation key, and is one judge's; judging again
replaces it. Evaluation asks for documents: `relevant_documents` and the export in the layout of
BEIR say which ones are relevant for a query.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from lagotto.context.cite import Citation, CitationKey, key_of
from lagotto.documents import DocumentRef, Record, Text, digest
from lagotto.errors import ConfigError
from lagotto.results import RetrievalResult
from lagotto.stores.base import JUDGEMENT, KeyedValues

Qrels = dict[str, dict[DocumentRef, int]]
"""By query, the relevance of documents."""


class RelevanceJudgement(Record):
    """One judge's verdict on a passage for a query: `relevance` is 1 if it is relevant, else 0.

    `judge` is the id of the key that a server was called with, empty without one.
    """

    query: Text = Field(min_length=1)
    citation: Text
    relevance: int = Field(ge=0, le=1)
    judge: str = ""
    judged_at: float = 0.0

    @property
    def document(self) -> DocumentRef:
        key = CitationKey.parse(self.citation)
        return DocumentRef(key.collection, key.document_id)

    @property
    def name(self) -> str:
        """Equal for judgements that replace one another: of one judge, query and span."""
        key = CitationKey.parse(self.citation)._replace(check="")
        return digest(self.judge, self.query, str(key))


class Judgements:
    """The judgements in a base."""

    def __init__(self, values: KeyedValues) -> None:
        self._values = values

    async def put(
        self, query: str, citation: str, relevance: int | None, *, judge: str = ""
    ) -> RelevanceJudgement | None:
        """Store a judgement; with None, take it back."""
        if not query.strip():
            raise ConfigError("a judgement needs a query; this one is empty")
        judgement = RelevanceJudgement(
            query=query.strip(),
            citation=citation,
            relevance=relevance or 0,
            judge=judge,
            judged_at=time.time(),
        )
        name = judgement.name
        if relevance is None:
            await self._values.remove(JUDGEMENT, name)
            return None
        await self._values.put(JUDGEMENT, name, judgement.model_dump(mode="json"))
        return judgement

    async def list(
        self, *, query: str | None = None, judge: str | None = None
    ) -> list[RelevanceJudgement]:
        """The judgements, the oldest first; of one query or judge if given."""
        items = await self._values.items(JUDGEMENT)
        judgements = [RelevanceJudgement.model_validate(item.value) for item in items]
        if query is not None:
            judgements = [item for item in judgements if item.query == query.strip()]
        judgements = [item for item in judgements if judge in (None, item.judge)]
        return sorted(judgements, key=lambda item: (item.judged_at, item.citation))


def citation_of(passage: Citation | RetrievalResult | str) -> str:
    """The key of what is judged: a hit, a citation or the key of one."""
    if isinstance(passage, RetrievalResult):
        return key_of(passage)
    return passage.key if isinstance(passage, Citation) else passage


def relevant_documents(judgements: Iterable[RelevanceJudgement]) -> Qrels:
    """The relevance of every judged document, by query.

    A document is relevant to a judge who found one of its passages so; it is relevant if at least
    half of its judges say so.
    """
    verdicts: dict[tuple[str, DocumentRef], dict[str, int]] = defaultdict(dict)
    for item in judgements:
        by_judge = verdicts[item.query, item.document]
        by_judge[item.judge] = max(by_judge.get(item.judge, 0), item.relevance)
    qrels: Qrels = {}
    for (query, document), by_judge in verdicts.items():
        relevant = 2 * sum(by_judge.values()) >= len(by_judge)
        qrels.setdefault(query, {})[document] = int(relevant)
    return qrels


def write_judgements(
    folder: Path, judgements: Iterable[RelevanceJudgement], *, collection: str | None = None
) -> None:
    """Write queries and relevance beside `corpus.jsonl`, as evaluation tools read them.

    Nothing is written if no document of the collection was judged.
    """
    queries, rows = [], ["query-id\tcorpus-id\tscore"]
    for query, documents in relevant_documents(judgements).items():
        name = digest(query)[:12]
        judged = [
            f"{name}\t{document_id}\t{score}"
            for (home, document_id), score in documents.items()
            if collection in (None, home)
        ]
        if judged:
            queries.append(json.dumps({"_id": name, "text": query}, ensure_ascii=False))
            rows += judged
    if queries:
        (folder / "qrels").mkdir(exist_ok=True)
        (folder / "queries.jsonl").write_text("\n".join([*queries, ""]), encoding="utf-8")
        (folder / "qrels" / "test.tsv").write_text("\n".join([*rows, ""]), encoding="utf-8")
