"""A client for OpenAI-compatible chat completions that adapts to what the service supports."""

from __future__ import annotations

from lagotto.errors import RerankError
from lagotto.models.http import JsonService

REFUSED = (400, 422)
"""Statuses with which services reject a parameter that they don't support."""

OPTIONAL = ("temperature", "seed", "max_tokens")

FORMATS = ("json_schema", "json_object")
"""Response formats that enforce JSON, the stricter one first."""


class ChatService:
    """Requests chat completions that are as reproducible as the service allows.

    Not every service supports JSON schemas, a temperature of 0, a seed or `max_tokens`. A parameter
    that the service rejects is left out from then on, if the request succeeds without it. Unless
    `strict`, no schema is asked for, only JSON.
    """

    def __init__(self, service: JsonService, *, model: str, seed: int, strict: bool) -> None:
        self._service = service
        self._model = model
        self._seed = seed
        self._left_out: frozenset[str] = frozenset() if strict else frozenset({"json_schema"})

    async def complete(
        self, messages: list[dict[str, str]], *, schema: dict[str, object], max_tokens: int
    ) -> object:
        """Return the service's answer, constrained to `schema` if the service supports that."""
        optional = {"temperature": 0, "seed": self._seed, "max_tokens": max_tokens}
        asked = {"model": self._model, "messages": messages, **optional}
        return await self._post(asked, schema, self._left_out)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def _post(
        self, asked: dict[str, object], schema: dict[str, object], left_out: frozenset[str]
    ) -> object:
        payload = {name: value for name, value in asked.items() if name not in left_out}
        try:
            return await self._service.post(
                "/chat/completions", payload | _response_format(schema, left_out)
            )
        except RerankError as problem:
            rejected = _rejected(problem, left_out)
            if rejected is None:
                raise
        answer = await self._post(asked, schema, left_out | {rejected})
        self._left_out |= {rejected}
        return answer


def _response_format(schema: dict[str, object], left_out: frozenset[str]) -> dict[str, object]:
    """The strictest response format that the service has not rejected."""
    if "json_schema" not in left_out:
        strict = {"name": "verdicts", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": strict}}
    if "json_object" not in left_out:
        return {"response_format": {"type": "json_object"}}
    return {}


def _rejected(problem: RerankError, left_out: frozenset[str]) -> str | None:
    """The parameter that the service may have rejected: one that it names, or the format."""
    if problem.status not in REFUSED:
        return None
    named = [name for name in OPTIONAL if name in str(problem)]
    return next((name for name in (*named, *FORMATS) if name not in left_out), None)
