"""The MCP server of a base, for one caller: assembly only."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from lagotto import __version__
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import cut
from lagotto.mcp.instructions import instructions
from lagotto.mcp.quotation import shortened
from lagotto.mcp.resources import TEMPLATE, list_resources, read_resource
from lagotto.mcp.tools import TOOLS, Tool

LOGGER = logging.getLogger("lagotto.mcp")
FAILED = "lagotto failed here; its log has the reason"
MOST_MESSAGE = 1_000
"""Characters of an error message."""

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


def create_server(base: AgentBase) -> Server[Any]:
    """The server through which one caller uses a base."""
    calls = _Calls(base)
    server: Server[Any] = Server(
        "lagotto",
        version=__version__,
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
        on_list_resources=calls.list_resources,
        on_list_resource_templates=calls.list_templates,
        on_read_resource=calls.read_resource,
    )
    server.middleware.append(calls.with_instructions)
    return server


class _Calls:
    """The requests of a caller."""

    def __init__(self, base: AgentBase) -> None:
        self._base = base
        self._tools = {
            name: tool for name, tool in TOOLS.items() if tool.effect == "reads" or base.writes
        }

    async def list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(map(_described, self._tools.values())))

    async def call_tool(
        self, _: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise _wrong(f"there is no tool {params.name[:60]!r}; there are {known}")
        try:
            async with self._base.admission():
                return _text(await tool(self._base, params.arguments or {}))
        except Exception as exc:  # noqa: BLE001 the edge of the server
            return _text(self._told(exc), is_error=True)

    async def list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params else None
        return await self._answered(list_resources(self._base, cursor))

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._answered(read_resource(self._base, str(params.uri)))

    async def with_instructions(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The greeting of either protocol era, with what the caller sees of the base now."""
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            return {**result, "instructions": await self._answered(instructions(self._base))}
        return result

    async def _answered(self, work: Awaitable[T]) -> T:
        try:
            async with self._base.admission():
                return await work
        except Exception as exc:  # noqa: BLE001 the edge of the server
            raise _wrong(self._told(exc)) from None

    def _told(self, error: Exception) -> str:
        told = self._base.message(error)
        if told is None:
            LOGGER.error("a call failed", exc_info=error)
        return cut(shortened(told or FAILED, most=MOST_MESSAGE))


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations.model_validate(tool.hints),
    )


def _text(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """An answer, sent once: clients that take structured content would pay for it twice."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=is_error
    )


def _wrong(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)
