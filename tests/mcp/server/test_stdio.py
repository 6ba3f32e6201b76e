"""`lagotto mcp` as its clients start it: a child process that speaks over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import anyio
import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from mcp import Client, StdioServerParameters
from tests.mcp.asking import MODES, text_of
from tests.server.running import serving

pytestmark = pytest.mark.slow

SOURCES = Path(__file__).parents[2] / "src"


def started(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "lagotto", "mcp", *arguments],
        env={"PYTHONPATH": str(SOURCES)},
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "notes.db"
    with KnowledgeBase(path) as kb:
        kb.add(*(Document(id=f"d{n}", title=f"T{n}", text=f"Truffle {n}.") for n in range(60)))
    return path


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdio(base: Path, mode: str) -> None:
    async with Client(started("--kb", str(base)), mode=mode) as client:
        assert '60 documents in the collections "default" (60)' in (client.instructions or "")
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "search" in names
        assert "add" not in names
        calls = (client.call_tool("search", {"query": f"truffle {n}"}) for n in range(50))
        for number, answer in enumerate(await asyncio.gather(*calls)):
            assert json.loads(text_of(answer))["results"][0]["title"] == f"T{number}"
        with anyio.move_on_after(0.001):  # the call is cancelled, the connection stays
            await client.call_tool("context", {"query": "truffle"})
        assert not (await client.call_tool("collections", {})).is_error


async def test_a_base_on_a_server_over_stdio() -> None:
    with serving() as server:
        async with Client(started("--kb", server.url, "--write")) as client:
            assert "4 documents" in (client.instructions or "")
            found = json.loads(text_of(await client.call_tool("search", {"query": "oak roots"})))
            (best, *_) = found["results"]
            assert best["id"] == "default/oak#0-44~a6e6c296"
            context = text_of(await client.call_tool("context", {"query": "oak roots"}))
            assert f"key={best['id']}" in context
            added = text_of(await client.call_tool("add", {"text": "A new one.", "title": "N"}))
            name = added.removeprefix("added: id=")
            read = text_of(await client.call_tool("read", {"id": name}))
            assert "> A new one." in read
            assert text_of(await client.call_tool("remove", {"ids": [name]})) == "removed 1 of 1"
            assert len((await client.list_resources()).resources) == 4
            missing = await client.call_tool("fetch", {"id": name})
            assert missing.is_error
