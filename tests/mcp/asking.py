"""Tools called as an agent calls them, and their answers read back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import mcp_types as types

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.mcp.quotation import MARK
from lagotto.mcp.tools import TOOLS, Agent
from lagotto.testing.hash_embedder import HashEmbedder

STATUS = re.compile(r"(\w+) shown: (\d+), total: (\d+), cursor: (\S+)")
HEAD = re.compile(r'(?:\[\d+\] )?("(?:[^"\\]|\\.)*") (?:key|id)=(\S+)')
MODES = ("legacy", "auto")
"""The handshake of the revisions up to 2025-11-25, and the newest revision."""


class Status(NamedTuple):
    """The first line of an answer."""

    unit: str
    shown: int
    total: int
    cursor: str | None


def status_of(answer: str) -> Status:
    """What the first line of an answer, or the fields of a JSON answer, say."""
    if answer.startswith("{"):
        said = json.loads(answer)
        return Status("json", said["shown"], said["total"], said["cursor"])
    found = STATUS.fullmatch(answer.split("\n", 1)[0])
    assert found, answer[:200]
    unit, shown, total, cursor = found.groups()
    return Status(unit, int(shown), int(total), None if cursor == "none" else cursor)


def heads_of(answer: str) -> list[str]:
    """The keys of the passages of an answer; every other line must be the server's or a quote."""
    keys: list[str] = []
    for line in answer.splitlines()[1:]:
        if line.startswith(MARK.rstrip()):
            continue
        found = HEAD.fullmatch(line)
        if found:
            json.loads(found[1])
            keys.append(found[2])
        else:
            assert line.startswith(("Lines that start", "Nothing relevant")) or "lines," in line
    return keys


@asynccontextmanager
async def base_of(
    *documents: Document, writes: bool = False, reranker: str | None = None
) -> AsyncIterator[Agent]:
    """A base with these documents, as an agent sees it."""
    async with AsyncKnowledgeBase(":memory:", embedder=HashEmbedder(), reranker=reranker) as kb:
        if documents:
            await kb.add(*documents)
        yield Agent(kb, writes=writes)


def own_base(agent: Agent) -> AsyncKnowledgeBase:
    """The base of an agent that has one of its own."""
    assert isinstance(agent.base, AsyncKnowledgeBase)
    return agent.base


async def ask(base: Agent, name: str, **arguments: Any) -> str:
    """The answer of a tool."""
    return await TOOLS[name](base, arguments)


async def pages(base: Agent, name: str, **arguments: Any) -> list[str]:
    """All answers of a tool, from cursor to cursor."""
    found = [await ask(base, name, **arguments)]
    while (cursor := status_of(found[-1]).cursor) is not None:
        assert len(found) < 200
        again = {key: value for key, value in arguments.items() if key not in PARTS}
        found.append(await ask(base, name, **again, cursor=cursor))
    return found


PARTS = ("section", "page", "lines")


class Never:
    """In place of a method: never returns, and notes that it was called, and cancelled."""

    def __init__(self) -> None:
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def __call__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.started.set)
        try:
            await asyncio.Event().wait()
        finally:
            self._loop.call_soon_threadsafe(self.cancelled.set)


def text_of(result: types.CallToolResult) -> str:
    """The text of an answer, which is all there is."""
    assert result.structured_content is None
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def quoted_text(answers: Sequence[str]) -> str:
    """What the answers of `read` quote, together."""
    return "".join(
        line.removeprefix(MARK)
        for answer in answers
        for line in answer.split("\n", 3)[3].splitlines(keepends=True)
    )
