"""The tools of the MCP server, by name."""

from lagotto.mcp.tools.add import ADD
from lagotto.mcp.tools.base import Tool
from lagotto.mcp.tools.collections import COLLECTIONS
from lagotto.mcp.tools.context import CONTEXT
from lagotto.mcp.tools.fetch import FETCH
from lagotto.mcp.tools.outline import OUTLINE
from lagotto.mcp.tools.read import READ
from lagotto.mcp.tools.remove import REMOVE
from lagotto.mcp.tools.search import SEARCH

TOOLS = {
    tool.name: tool for tool in (SEARCH, FETCH, CONTEXT, OUTLINE, READ, COLLECTIONS, ADD, REMOVE)
}

__all__ = ["TOOLS", "Tool"]
