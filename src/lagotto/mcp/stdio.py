"""The MCP server over stdin and stdout, started by its client."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from lagotto.client import AsyncClient
from lagotto.knowledge_base import AsyncKnowledgeBase
from lagotto.mcp.agent_base import AgentBase, OpenBase
from lagotto.mcp.server import create_server


async def serve_stdio(base: AsyncKnowledgeBase | AsyncClient, *, writes: bool = False) -> None:
    """Serve a base until the client closes stdin; what prevents searches is an error at once."""
    async with base:
        if isinstance(base, AsyncKnowledgeBase):
            await base._ready()
        await _serve(OpenBase(base, writes=writes))


async def _serve(base: AgentBase) -> None:
    async with stdio_server() as (receiving, sending):
        server = create_server(base)
        await server.run(receiving, sending, server.create_initialization_options())
