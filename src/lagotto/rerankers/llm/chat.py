"""Chat completions from any OpenAI-compatible service, in the form that it understands."""

from __future__ import annotations

from lagotto.errors import RerankError
from lagotto.models.http import JsonService

REFUSED = (400, 422)
"""What services answer to a parameter that they don't know."""

OPTIONAL = ("temperature", "seed", "max_tokens")

FORMATS = ("json_schema", "json_object")
"""Ways to have JSON answered, the stricter one first."""


class ChatService:
    """Asks for one answer at a time, as repeatable as the service can make it.

    Not every service knows a JSON schema, a temperature of 0, a seed or a limit of that name.
    Whichever one it refuses is left out from then on, if leaving it out helped.
    """

    def __init__(self, service: JsonService, *, model: str, seed: int) -> None:
        self._service = service
        self._model = model
        self._seed = seed
        self._left_out: frozenset[str] = frozenset()

    async def complete(
        self, messages: list[dict[str, str]], *, schema: dict[str, object], max_tokens: int
    ) -> object:
        """The service's answer, in JSON of that schema where the service can enforce it."""
        wishes = {"temperature": 0, "seed": self._seed, "max_tokens": max_tokens}
        asked = {"model": self._model, "messages": messages, **wishes}
        return await self._post(asked, schema, self._left_out)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def _post(
        self, asked: dict[str, object], schema: dict[str, object], left_out: frozenset[str]
    ) -> object:
        payload = {name: value for name, value in asked.items() if name not in left_out}
        try:
            return await self._service.post("/chat/completions", payload | _form(schema, left_out))
        except RerankError as problem:
            culprit = _culprit(problem, left_out)
            if culprit is None:
                raise
        answer = await self._post(asked, schema, left_out | {culprit})
        self._left_out |= {culprit}
        return answer


def _form(schema: dict[str, object], left_out: frozenset[str]) -> dict[str, object]:
    """The strictest form of answer that has not been refused."""
    if "json_schema" not in left_out:
        strict = {"name": "verdicts", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": strict}}
    if "json_object" not in left_out:
        return {"response_format": {"type": "json_object"}}
    return {}


def _culprit(problem: RerankError, left_out: frozenset[str]) -> str | None:
    """What the service may have refused: a parameter that it names, or else the answer's form."""
    if problem.status not in REFUSED:
        return None
    named = [name for name in OPTIONAL if name in str(problem)]
    return next((name for name in (*named, *FORMATS) if name not in left_out), None)
