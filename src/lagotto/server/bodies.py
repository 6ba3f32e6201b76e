"""The bodies of requests: the arguments of the Python verbs, by the same names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, create_model

from lagotto.documents import DEFAULT_COLLECTION, Record
from lagotto.prefs import RetrievalPrefs

_OWN = {"query_text", "filters"}
"""Settings that requests write in another way."""
_TEXTS = {"q", "query", "document", "collection", "prefs"}
"""Parameters of permalinks that are never JSON: a query may well start with a bracket."""


def _optional(name: str) -> tuple[Any, None]:
    field = RetrievalPrefs.model_fields[name]
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return (kind | None, None)


SettingsBody = create_model(
    "SettingsBody",
    __base__=Record,
    __doc__="Any setting of RetrievalPrefs; of a group, only what is given changes.",
    **{name: _optional(name) for name in RetrievalPrefs.model_fields if name not in _OWN},
)  # type: ignore[call-overload]


class SearchBody(SettingsBody):
    """A search: the query, and whatever `retrieve` takes in Python.

    `prefs` is the name of a preset to start from, `timeout` a number of seconds. `highlight` marks
    the words of hits that match the query.
    """

    query: str
    filters: dict[str, Any] | None = None
    prefs: str | None = None
    query_vector: list[FiniteFloat] | None = Field(default=None, min_length=1)
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    highlight: bool = False

    def settings(self) -> dict[str, Any]:
        """The settings that are given, by name."""
        names = self.model_fields_set & SettingsBody.model_fields.keys()
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class ContextBody(SearchBody):
    """A search for a context pack."""

    max_tokens: int | None = Field(default=None, ge=1)
    format: Literal["plain", "markdown", "xml"] = "plain"


class ExplainBody(SearchBody):
    """A search, and the id of a document: why is it there, or why not?"""

    document: str = Field(min_length=1)


class ResolveBody(Record):
    """The key of a citation."""

    citation: str


class JudgementBody(Record):
    """Whether a passage, named by its citation key, is relevant for a query: 1 or 0.

    Without a relevance, the judgement is taken back.
    """

    query: str = Field(min_length=1, max_length=10_000)
    citation: str = Field(max_length=10_000)
    relevance: Literal[0, 1] | None = None


class JudgementsQuery(Record):
    """The query that the judgements are of, None for all; `mine` leaves out those of other keys."""

    q: str | None = None
    mine: bool = False


class DocumentBody(Record):
    """A document to add; what is left out is as in Document."""

    model_config = ConfigDict(extra="allow")

    text: str


class AddBody(Record):
    """Documents to add, as in Document; without a language it is detected, or as given here."""

    documents: list[DocumentBody] = Field(min_length=1)
    language: str | None = None


class RemoveBody(Record):
    """Documents to remove: by ids, by filter, or both, within a collection if given."""

    ids: list[str] | None = None
    filters: dict[str, Any] | None = None
    collection: str | None = Field(default=None, min_length=1)


class RerankText(Record):
    """A text to rerank, as an object."""

    text: str


class RerankBody(Record):
    """Texts to rerank, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    query: str
    documents: list[str | RerankText]
    model: str | None = None
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False


class EmbeddingsBody(Record):
    """Texts to embed, as services of this kind take them."""

    model_config = ConfigDict(extra="ignore")

    input: str | list[str]
    model: str | None = None
    input_type: Literal["query", "document"] = "document"
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"


class DocumentsQuery(Record):
    """Which documents to list."""

    filters: str | None = None
    collection: str | None = Field(default=None, min_length=1)
    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


class DocumentQuery(Record):
    """The collection of the document in the path."""

    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1)


class FieldsQuery(Record):
    """The collection whose fields are asked for, None for all."""

    collection: str | None = Field(default=None, min_length=1)


class TasksQuery(Record):
    """Which tasks to list."""

    after: str | None = None
    limit: int = Field(default=100, ge=1, le=1_000)


def nested(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The parameters of a permalink as a body: `scoring.blend=rrf` is in the group `scoring`.

    Objects and lists are written as JSON; queries and names are texts, whatever they look like.
    ValueError if a name is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        *groups, last = name.split(".")
        inner = found
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name}: {group} has a value of its own already")
        if last in inner:
            raise ValueError(f"{name} is given twice; give it once")
        is_json = value[:1] in ("{", "[") and name not in _TEXTS
        inner[last] = json.loads(value) if is_json else value
    return found
