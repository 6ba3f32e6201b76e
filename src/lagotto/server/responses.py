"""What the server answers: records of the library, with the settings in effect."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from lagotto.base.judgements import RelevanceJudgement
from lagotto.context import CitedPassage, ContextPack
from lagotto.documents import Chunk, Document, Span
from lagotto.results import RetrievalBundle, RetrievalResult, RetrievalStats, ScoreBreakdown
from lagotto.server.access import Scope
from lagotto.server.tasks import Task


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="forbid")


Hit = create_model(
    "Hit",
    __base__=Answer,
    __doc__="A hit, with its citation as one line, its key, and the words that match if asked for.",
    citation=(str, ...),
    key=(str, ...),
    highlights=(list[Span], Field(default_factory=list)),
    **{name: (field.annotation, field) for name, field in RetrievalResult.model_fields.items()},
)  # type: ignore[call-overload]


class SearchResponse(Answer):
    """What every search answers with: the settings in effect, and what could not be used."""

    query: str
    settings: dict[str, Any]
    degraded: list[str] = Field(default_factory=list)


class RetrieveAnswer(SearchResponse):
    """A ranked list; `candidates` are what a reranker was given, none without one."""

    hits: list[Hit]
    candidates: list[RetrievalResult] = Field(default_factory=list)
    stats: RetrievalStats


class SearchAnswer(RetrievalBundle, SearchResponse):
    """A bundle of documents and evidence."""


class ContextAnswer(ContextPack, SearchResponse):
    """A cited context pack."""


class WhyNotAnswer(SearchResponse):
    """Why a document is, or is not, among the hits."""

    document_id: str
    found: bool
    reason: str
    rank: int | None = None
    breakdown: ScoreBreakdown | None = None
    hits: list[Hit]
    stats: RetrievalStats


class ResolveAnswer(Answer):
    """What a citation refers to; without a passage if its span is no longer there."""

    citation: str
    changed: bool
    passage: CitedPassage | None = None


class JudgedAnswer(Answer):
    """The judgement that was stored, None if it was taken back."""

    judgement: RelevanceJudgement | None


class JudgementsAnswer(Answer):
    """Judgements, the oldest first."""

    judgements: list[RelevanceJudgement]


class DocumentsAnswer(Answer):
    """Documents without their texts; `after` of the next request is `next`."""

    documents: list[Document]
    next: str | None = None


class ChunksAnswer(Answer):
    """The chunks of a document."""

    chunks: list[Chunk]


class TasksAnswer(Answer):
    """Tasks, the latest first; `after` of the next request is `next`."""

    tasks: list[Task]
    next: str | None = None


class RemoveAnswer(Answer):
    """The ids of the removed documents."""

    removed: list[str]


class CollectionAnswer(Answer):
    """A collection and the number of its documents."""

    name: str
    documents: int


class CollectionsAnswer(Answer):
    """The collections that the key may see."""

    collections: list[CollectionAnswer]


class FieldValue(Answer):
    """A value of a field, and how many documents have it."""

    value: str | int | float | bool
    documents: int


class FieldAnswer(Answer):
    """A field that documents have, with its most frequent values; `values_total` counts all."""

    name: str
    documents: int
    values: list[FieldValue]
    values_total: int


class FieldsAnswer(Answer):
    """The fields that filters can use, of the documents that the key sees.

    `counted` documents were read; `complete` says whether these are all. Those fields are shown
    that the most documents have, and `fields_total` counts all.
    """

    fields: list[FieldAnswer]
    fields_total: int
    counted: int
    complete: bool


class PresetAnswer(Answer):
    """A preset, with all settings in effect."""

    name: str
    description: str
    settings: dict[str, Any]


class OptionsAnswer(Answer):
    """What a key may do, and what requests may name: presets, rerankers, limits.

    `settings` are those of a search that sets none.
    """

    version: str
    scopes: list[Scope]
    presets: list[PresetAnswer]
    rerankers: list[str]
    settings: dict[str, Any]
    max_top_k: int


class RerankItem(Answer):
    """The score of a text, by its index in the request."""

    index: int
    relevance_score: float
    document: dict[str, str] | None = None


class RerankAnswer(Answer):
    """Texts by relevance, best first."""

    id: str
    model: str
    results: list[RerankItem]


class EmbeddingItem(Answer):
    """A vector: a list of numbers, or float32 in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(Answer):
    """Tokens of the request."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(Answer):
    """Vectors, one per text."""

    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingItem]
    usage: Usage


class HealthAnswer(Answer):
    """That the server is there."""

    status: Literal["ok"] = "ok"
