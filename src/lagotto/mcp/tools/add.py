"""`add`: a text as a new document."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError

from lagotto.documents import DEFAULT_COLLECTION, Document, Record
from lagotto.errors import ConfigError
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.names import DocumentAddress
from lagotto.mcp.tools.base import Tool

MOST_CHARACTERS = 1_000_000


class AddArguments(Record):
    """What `add` takes: texts only, since a path would be one of the server's own files."""

    text: str = Field(min_length=1, max_length=MOST_CHARACTERS)
    title: str | None = None
    collection: str = Field(default=DEFAULT_COLLECTION, min_length=1)
    metadata: dict[str, Any] | None = None


async def add(base: AgentBase, asked: AddArguments) -> str:
    """Add a document; its id is a hash of its content, so it never replaces another one."""
    try:
        document = Document(
            title=asked.title,
            text=asked.text,
            collection=asked.collection,
            metadata=asked.metadata or {},
            kind="text",
        )
    except ValidationError as exc:
        raise ConfigError(f"the document is wrong: {exc.errors()[0]['msg']}") from exc
    report = await base.add(document)
    if report.failures:
        raise ConfigError(f"it was not added: {report.failures[0].reason}")
    done = "added" if report.added else "it was there already"
    return f"{done}: id={DocumentAddress.of(document)}"


ADD = Tool("add", "Add a text as a document.", AddArguments, add, effect="adds")
