"""A tool: its name, what it takes, what it does, and the hints that clients show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from lagotto.documents import Document, Record
from lagotto.errors import ConfigError
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import DEFAULT_TOKENS, LEAST_TOKENS, MOST_TOKENS, on_wire
from lagotto.mcp.names import DocumentAddress
from lagotto.mcp.quotation import shortened

MOST_RESULTS = 50
"""The hits of a search that can be paged through."""

MaxTokens = Annotated[
    int, Field(ge=LEAST_TOKENS), AfterValidator(lambda asked: min(asked, MOST_TOKENS))
]
DocumentId = Annotated[str, Field(min_length=1, max_length=5_000)]
Effect = Literal["reads", "adds", "removes"]


class Arguments(Record):
    """What every tool with an answer of any length takes."""

    max_tokens: MaxTokens = DEFAULT_TOKENS
    cursor: str | None = None


Run = Callable[[AgentBase, Any], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool; `run` is given the base and the checked arguments, and returns the answer's text.

    Its description also explains the arguments that their names do not: schemas are paid for with
    every conversation.
    """

    name: str
    description: str
    arguments: type[Record]
    run: Run
    effect: Effect = "reads"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as short as it can be."""
        fields = self.arguments.model_json_schema()["properties"]
        return {
            "type": "object",
            "properties": {name: _short(said) for name, said in fields.items()},
            "required": [
                name for name, field in self.arguments.model_fields.items() if field.is_required()
            ],
        }

    @property
    def hints(self) -> dict[str, bool]:
        """What the tool does to the base; it never touches anything else."""
        if self.effect == "reads":
            return {"readOnlyHint": True, "openWorldHint": False}
        destroys = self.effect == "removes"
        return {"destructiveHint": destroys, "idempotentHint": True, "openWorldHint": False}

    async def __call__(self, base: AgentBase, given: Mapping[str, Any]) -> str:
        """Check the arguments, run, and check the answer: it never has more than was asked for."""
        asked = self._checked(given)
        answer = await self.run(base, asked)
        budget = asked.max_tokens if isinstance(asked, Arguments) else MOST_TOKENS
        if (size := on_wire(answer)) > budget:
            raise ConfigError(
                f"max_tokens is {budget}, and the shortest answer to this has {size} tokens; "
                "ask with more"
            )
        return answer

    def _checked(self, given: Mapping[str, Any]) -> Record:
        try:
            return self.arguments.model_validate(dict(given))
        except ValidationError as exc:
            wrong = "; ".join(
                f"{'.'.join(map(str, found['loc'])) or 'arguments'}: {_said(found)}"
                for found in exc.errors(include_url=False)[:5]
            )
            known = ", ".join(
                f"{name} (required)" if field.is_required() else name
                for name, field in self.arguments.model_fields.items()
            )
            raise ConfigError(f"{shortened(wrong, most=600)}; {self.name} takes {known}") from exc


async def found_document(base: AgentBase, name: DocumentAddress) -> Document:
    """A document; ConfigError if there is none."""
    document = await base.get(name)
    if document is None:
        raise ConfigError(
            f"there is no document {str(name)[:300]!r}; pass an id or key from search or context"
        )
    return document


def _short(said: Mapping[str, Any]) -> dict[str, Any]:
    (first, *_) = said.get("anyOf", [said])
    kept = {name: first[name] for name in ("type", "items", "maximum") if name in first}
    if "description" in said:
        kept["description"] = said["description"]
    return kept


def _said(found: Any) -> str:
    if found["type"] == "extra_forbidden":
        return "there is no such argument"
    if found["type"] == "missing":
        return "it is missing"
    return f"{found['msg']}, and it is {found['input']!r}"
