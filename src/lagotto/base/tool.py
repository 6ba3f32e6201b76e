"""KnowledgeTool: any Retriever as a tool that an agent can call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from lagotto.documents import Record
from lagotto.errors import ConfigError
from lagotto.prefs import RetrievalPrefs
from lagotto.request_context import RequestContext
from lagotto.results import RetrievalBundle, format_citation
from lagotto.retrieval.retriever import Retriever

DESCRIPTION = (
    "Search the knowledge base. Returns the passages that match best, each with its source, so "
    "that an answer can cite them by their numbers."
)
MOST_PASSAGES = 50
"""The greatest number of passages that an agent can ask for."""


class ToolArguments(Record):
    """What an agent passes to the tool."""

    query: str = Field(min_length=1, description="A question, or words to search for.")
    top_k: int | None = Field(
        default=None, ge=1, le=MOST_PASSAGES, description="How many passages to return."
    )


def schema_of(arguments: type[Record], *keywords: str) -> dict[str, Any]:
    """The JSON schema of what a tool takes, with the type and these keywords of each argument."""
    properties = {}
    for name, schema in arguments.model_json_schema()["properties"].items():
        (first, *_) = schema.get("anyOf", [schema])  # null is what is left out
        merged = {**schema, **first}
        properties[name] = {key: merged[key] for key in ("type", *keywords) if key in merged}
    fields = arguments.model_fields.items()
    required = [name for name, field in fields if field.is_required()]
    return {"type": "object", "properties": properties, "required": required}


class KnowledgeTool:
    """A search tool for agents: a name, a description, a JSON schema, and a call that returns text.

    It depends on the Retriever protocol alone. `prefs` are the settings of its searches; `top_k`
    is the number of passages if the agent does not ask for another.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        name: str = "search_knowledge",
        description: str = DESCRIPTION,
        prefs: RetrievalPrefs | None = None,
        top_k: int = 5,
    ) -> None:
        self.name = name
        self.description = description
        self._retriever = retriever
        self._prefs = (prefs or RetrievalPrefs()).replace(top_k_chunks=top_k)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        keywords = ("minLength", "minimum", "maximum", "description")
        return {**schema_of(ToolArguments, *keywords), "additionalProperties": False}

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as chat APIs take it: `{"type": "function", "function": {...}}`."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    async def __call__(
        self, query: str, top_k: int | None = None, *, request: RequestContext | None = None
    ) -> str:
        """Search, and return the passages as numbered text with their sources."""
        return await self.call({"query": query, "top_k": top_k}, request=request)

    async def call(
        self, arguments: str | Mapping[str, Any], *, request: RequestContext | None = None
    ) -> str:
        """As `tool(query)`, with the arguments as a model wrote them: a mapping, or JSON."""
        tool_arguments = _parsed(arguments)
        prefs = self._prefs.replace(query_text=tool_arguments.query)
        if tool_arguments.top_k is not None:
            prefs = prefs.replace(top_k_chunks=tool_arguments.top_k)
        return as_text(await self._retriever.search(request or RequestContext(), prefs))


def as_text(bundle: RetrievalBundle) -> str:
    """Evidence as numbered passages under their sources, and what could not be used."""
    sources = {(item.collection, item.item_id): item for item in bundle.candidates}
    passages = []
    for number, chunk in enumerate(bundle.evidence, 1):
        item = sources.get((chunk.collection, chunk.item_id))
        name = (item and (item.title or item.source)) or chunk.item_id
        passages.append(f"[{number}] {format_citation(name, chunk.location)}\n{chunk.text}")
    notes = [f"Note: {note}" for note in bundle.stats.degraded]
    return "\n\n".join([*(passages or ["No passage was found."]), *notes])


def _parsed(arguments: str | Mapping[str, Any]) -> ToolArguments:
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        return ToolArguments.model_validate(values)
    except (ValueError, RecursionError) as exc:  # ValidationError is a ValueError
        first = exc.errors()[0] if isinstance(exc, ValidationError) else None
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(exc)
        raise ConfigError(
            f'the arguments of the tool are wrong ({problem}); pass {{"query": "...", "top_k": 5}}'
        ) from exc
