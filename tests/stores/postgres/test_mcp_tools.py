from __future__ import annotations

import json

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.mcp.server import create_server
from lagotto.mcp.tools import Agent
from lagotto.testing.hash_embedder import HashEmbedder
from mcp import Client
from tests.mcp.asking import text_of

DOCUMENTS = [
    Document(id="oak", title="Oaks", text="Truffles grow below oak."),
    Document(id="dog", text="Dogs find them."),
]


async def test_the_tools_on_a_server(location: str) -> None:
    async with AsyncKnowledgeBase(location, embedder=HashEmbedder()) as kb:
        await kb.add(*DOCUMENTS)
        async with Client(create_server(Agent(kb, writes=True))) as client:
            found = text_of(await client.call_tool("search", {"query": "oak truffles"}))
            key = json.loads(found)["results"][0]["id"]
            assert key.startswith("default/oak#")
            context = text_of(await client.call_tool("context", {"query": "oak truffles"}))
            assert f"key={key}" in context
            assert "> Truffles" in text_of(await client.call_tool("read", {"id": key}))
            assert '"default": 2' in text_of(await client.call_tool("collections", {}))
            assert text_of(await client.call_tool("remove", {"ids": ["oak"]})) == "removed 1 of 1"
            assert len((await client.list_resources()).resources) == 1
