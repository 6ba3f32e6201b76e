"""`remove`: documents by their ids."""

from __future__ import annotations

from pydantic import Field

from lagotto.documents import Record
from lagotto.mcp.agent_base import AgentBase
from lagotto.mcp.names import Target
from lagotto.mcp.tools.base import DocumentId, Tool


class RemoveArguments(Record):
    """What `remove` takes: ids only, so that no filter can empty a base by mistake."""

    ids: list[DocumentId] = Field(min_length=1, max_length=100)


async def remove(base: AgentBase, asked: RemoveArguments) -> str:
    """Remove documents; an id of a passage stands for its document."""
    names = list(dict.fromkeys(Target.parse(given).name for given in asked.ids))
    gone = [name for name in names if await base.remove(name)]
    missing = [str(name)[:300] for name in names if name not in gone]
    told = f"removed {len(gone)} of {len(names)}"
    return f"{told}; no document is called {', '.join(missing[:5])}" if missing else told


REMOVE = Tool(
    "remove", "Remove documents by id, for good.", RemoveArguments, remove, effect="removes"
)
