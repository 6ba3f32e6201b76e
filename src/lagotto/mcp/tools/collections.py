"""`collections`: names and sizes."""

from __future__ import annotations

from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.budget import most
from lagotto.mcp.excerpts import status
from lagotto.mcp.names import make_cursor, parse_cursor
from lagotto.mcp.quotation import label
from lagotto.mcp.tools.base import Arguments, Tool

SCOPE = "collections"


async def collections(base: AgentBase, asked: Arguments) -> str:
    """The collections from the cursor on, as many as fit."""
    (start,) = parse_cursor(asked.cursor, of=SCOPE) if asked.cursor else (0,)
    found = sorted((await base.collections()).items())
    lines = [f"{label(name)}: {count} documents" for name, count in found[start:]]

    def render(shown: int) -> str:
        end = start + shown
        more = make_cursor(end, of=SCOPE) if shown and end < len(found) else None
        return "\n".join([status("collections", shown, len(found), more), *lines[:shown]])

    return render(most(len(lines), render, budget=asked.max_tokens))


COLLECTIONS = Tool("collections", "List collections with their sizes.", Arguments, collections)
