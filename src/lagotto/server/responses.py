"""What the server answers: records of the library, with the settings in effect.

Handlers answer with plain values; these records describe them in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from lagotto.context import ContextPack
from lagotto.documents import Span
from lagotto.results import RetrievalBundle, RetrievalResult, RetrievalStats, ScoreBreakdown


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="forbid")


def record(name: str, fields: Mapping[str, Any]) -> type[Answer]:
    """An answer with fields of these types, all of them required."""
    required: dict[str, Any] = {key: (kind, ...) for key, kind in fields.items()}
    return create_model(name, __base__=Answer, **required)


Hit = create_model(
    "Hit",
    __base__=Answer,
    __doc__="A hit, with its citation as one line, its key, and matching words if requested.",
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
    """A ranked list; `candidates` are the input of a reranker, none without one."""

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


class Collection(Answer):
    """A collection and the number of its documents."""

    name: str
    documents: int


class FieldValue(Answer):
    """A value of a field, and how many documents have it."""

    value: str | int | float | bool
    documents: int


class FieldSummary(Answer):
    """A field that documents have, with its most frequent values; `values_total` counts all."""

    name: str
    documents: int
    values: list[FieldValue]
    values_total: int


class PresetSummary(Answer):
    """A preset, with all settings in effect."""

    name: str
    description: str
    settings: dict[str, Any]


class RerankItem(Answer):
    """The score of a text, by its index in the request."""

    index: int
    relevance_score: float
    document: dict[str, str] | None = None


class EmbeddingItem(Answer):
    """A vector: a list of numbers, or float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(Answer):
    """Tokens of the request."""

    prompt_tokens: int
    total_tokens: int
