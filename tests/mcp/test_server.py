"""`lagotto mcp` as its clients start it: a child process that speaks over stdin and stdout."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from lagotto.base.blocking import KnowledgeBase
from lagotto.demo import add_corpus, questions
from lagotto.documents import Document
from lagotto.mcp.quotation import estimate
from lagotto.mcp.server import create_server
from lagotto.models.tokenizer import ApproximateTokenizer
from lagotto.prefs import SearchRequest
from lagotto.results import Results
from mcp import Client, StdioServerParameters
from tests.mcp.asking import MODES, Never, base_of, text_of
from tests.server.running import serving

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    Document(id=f"d{number}", title=f"Title {number}", text=f"Truffle number {number}.")
    for number in range(60)
]
READING = ["search", "fetch", "context", "outline", "read", "collections"]


@pytest.mark.parametrize("mode", MODES)
async def test_both_eras_of_the_protocol(mode: str) -> None:
    async with base_of(*DOCUMENTS) as base, Client(create_server(base), mode=mode) as client:
        expected = LATEST_HANDSHAKE_VERSION if mode == "legacy" else LATEST_MODERN_VERSION
        assert client.protocol_version == expected
        assert client.instructions is not None
        assert '60 documents in the collections "default" (60)' in client.instructions
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        answer = await client.call_tool("search", {"query": "truffle"})
        assert not answer.is_error
        assert json.loads(text_of(answer))["shown"] == 10


async def test_the_list_of_tools_is_short() -> None:
    async with base_of(writes=True) as base:
        for mode in MODES:
            async with Client(create_server(base), mode=mode) as client:
                listed = await client.list_tools()
                sent = listed.model_dump_json(by_alias=True, exclude_none=True)
                assert len(listed.tools) == 8
                assert estimate(sent) <= 1_500
                assert ApproximateTokenizer().count([sent])[0] <= 1_500
                assert estimate(client.instructions or "") <= 200


async def test_hints() -> None:
    async with base_of(writes=True) as base, Client(create_server(base)) as client:
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        for name in READING:
            hints = tools[name]
            assert hints is not None
            assert hints.read_only_hint is True
            assert hints.open_world_hint is False
        add, remove = tools["add"], tools["remove"]
        assert add is not None
        assert remove is not None
        assert (add.read_only_hint, add.destructive_hint) == (None, False)
        assert (remove.read_only_hint, remove.destructive_hint) == (None, True)


async def test_writing_needs_to_be_allowed() -> None:
    async with base_of() as base, Client(create_server(base)) as client:
        for name in ("add", "remove", "drop"):
            with pytest.raises(MCPError, match=f"there is no tool '{name}'; there are search"):
                await client.call_tool(name, {"text": "x", "ids": ["x"]})


@pytest.mark.parametrize("mode", MODES)
async def test_wrong_arguments_are_answered(mode: str) -> None:
    async with base_of() as base, Client(create_server(base), mode=mode) as client:
        answer = await client.call_tool("search", {"top_k": "many"})
        assert answer.is_error
        assert "query: it is missing" in text_of(answer)
        assert "search takes" in text_of(answer)
        answer = await client.call_tool("read", {"id": "\x00" * 4_000})
        assert answer.is_error
        assert estimate(text_of(answer)) < 500


async def test_an_unforeseen_failure_tells_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: SearchRequest) -> Results:
        raise RuntimeError("/secret/path")

    async with base_of() as base, Client(create_server(base)) as client:
        monkeypatch.setattr(base.base, "answer", broken)
        answer = await client.call_tool("search", {"query": "x"})
        assert answer.is_error
        assert text_of(answer) == "lagotto failed here; its log has the reason"
    assert "/secret/path" in caplog.text


@pytest.mark.parametrize("mode", MODES)
async def test_resources(mode: str) -> None:
    async with base_of(*DOCUMENTS) as base, Client(create_server(base), mode=mode) as client:
        found = await client.list_resources()
        uris = [each.uri for each in found.resources]
        while found.next_cursor:
            found = await client.list_resources(cursor=found.next_cursor)
            uris += [each.uri for each in found.resources]
        assert len(set(uris)) == len(uris) == 60
        (contents,) = (await client.read_resource("lagotto://documents/default/d7")).contents
        assert "> Truffle number 7." in getattr(contents, "text", "")
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "lagotto://documents/{collection}/{id}"
        with pytest.raises(MCPError, match="there is no document"):
            await client.read_resource("lagotto://documents/default/none")


@pytest.mark.parametrize("mode", MODES)
async def test_many_calls_at_once(mode: str) -> None:
    async with base_of(*DOCUMENTS) as base, Client(create_server(base), mode=mode) as client:
        calls = (client.call_tool("search", {"query": f"truffle {n}"}) for n in range(50))
        answers = await asyncio.gather(*calls)
        for number, answer in enumerate(answers):
            best = json.loads(text_of(answer))["results"][0]
            assert best["title"] == f"Title {number}"


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_ends(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    never = Never()
    async with base_of() as base, Client(create_server(base), mode=mode) as client:
        monkeypatch.setattr(base.base, "answer", never)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search", {"query": "x"})
            await never.started.wait()
            tasks.cancel_scope.cancel()
        await asyncio.wait_for(never.cancelled.wait(), 60)
        assert not (await client.call_tool("collections", {})).is_error


@pytest.mark.slow
async def test_three_cited_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted agent of `python benchmarks agent`."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    script: Any = importlib.import_module("agent")
    with KnowledgeBase(tmp_path / "demo.db") as kb:
        add_corpus(kb)
        asked = [each for each in questions() if each.question in script.SCRIPT]
        agent = await script.run(tmp_path / "demo.db", asked)
        assert len(agent.answers) == 3
        for answer in agent.answers:
            assert answer.is_right
            assert answer.resolves
            assert kb.resolve(answer.key).text
    assert agent.tokens <= 12_000
    documented = re.search(r"([\d,]+) tokens in all", (ROOT / "docs" / "mcp.md").read_text("utf-8"))
    assert documented is not None
    # ids, and so tokens, differ a little with the folder
    assert agent.tokens == pytest.approx(int(documented[1].replace(",", "")), rel=0.01)


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
