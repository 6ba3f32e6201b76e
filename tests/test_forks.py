"""A base belongs to the process and the event loop that opened it; elsewhere it never hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import StoreError
from lagotto.testing.hash_embedder import HashEmbedder
from tests.child_process import child, kill_with_forks, said

START = """
import asyncio, os, sys
from lagotto import AsyncKnowledgeBase, Document, KnowledgeBase, StoreError
from lagotto.testing.hash_embedder import HashEmbedder

location = sys.argv[1]

def refused(call):
    try:
        call()
    except StoreError as error:
        return "is a fork; open it again" in str(error)
    return False
"""

BLOCKING = """
base = KnowledgeBase(location, embedder=HashEmbedder())
base.add(Document(id="a", text="A text."))
base.retrieve("text")
pid = os.fork()
if pid == 0:
    calls = [
        lambda: base.retrieve("text"), lambda: base.add(Document(text="B")), base.info,
        lambda: base.get("a"), base.documents, lambda: base.remove("a"),
    ]
    told = all(map(refused, calls))
    base.close()
    with KnowledgeBase(location, embedder=HashEmbedder()) as own:
        own.add(Document(id="b", text="Another text."))
        print("child", told, len(own.retrieve("text")), flush=True)
    sys.exit(0)
_, status = os.waitpid(pid, 0)
print("parent", status, len(base.retrieve("text")), flush=True)
base.close()
"""

ASYNCHRONOUS = """
loop = asyncio.new_event_loop()
unopened = AsyncKnowledgeBase(location, embedder=HashEmbedder())
base = loop.run_until_complete(AsyncKnowledgeBase(location, embedder=HashEmbedder()).open())
loop.run_until_complete(base.add(Document(id="a", text="A text.")))

async def of_its_own():
    async with unopened:
        await unopened.add(Document(id="b", text="Another text."))
        return len(await unopened.retrieve("text"))

pid = os.fork()
if pid == 0:
    calls = [
        lambda: asyncio.run(base.retrieve("text")), lambda: asyncio.run(base.info()),
        lambda: asyncio.run(base.open()),
    ]
    told = all(map(refused, calls))
    asyncio.run(base.close())
    print("child", told, asyncio.run(of_its_own()), flush=True)
    os._exit(0)  # asyncio itself would close the loop of the parent at an ordinary exit
_, status = os.waitpid(pid, 0)
print("parent", status, len(loop.run_until_complete(base.retrieve("text"))), flush=True)
loop.run_until_complete(base.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("program", [BLOCKING, ASYNCHRONOUS])
def test_a_fork_is_told_to_open_its_own_base(program: str, tmp_path: Path) -> None:
    with child(START + program, tmp_path / "kb.db") as process:
        watch = threading.Timer(30, kill_with_forks, [process])  # a base that hangs is a failure
        watch.start()
        assert said(process) == "child True 2"
        assert said(process) == "parent 0 2"
        assert process.wait() == 0
        watch.cancel()


def test_another_event_loop_is_refused() -> None:
    base = AsyncKnowledgeBase(":memory:", embedder=HashEmbedder())
    first = asyncio.new_event_loop()
    first.run_until_complete(base.open())
    for call in (base.info, lambda: base.retrieve("text"), base.open, base.close):
        with pytest.raises(StoreError, match="opened in another event loop"):
            asyncio.run(call())
    first.run_until_complete(base.add(Document(id="a", text="A text.")))
    first.close()
    with pytest.raises(StoreError, match="opened in another event loop"):
        asyncio.run(base.info())
    asyncio.run(base.close())  # its own loop is gone, so nobody else can


def test_a_closed_base_may_be_opened_in_another_loop(tmp_path: Path) -> None:
    base = AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder())

    async def use(text: str) -> int:
        async with base:
            await base.add(Document(text=text))
            return (await base.info()).documents

    assert [asyncio.run(use(text)) for text in ("One.", "Two.")] == [1, 2]


def test_a_base_that_was_not_closed_ends_with_its_last_reference(tmp_path: Path) -> None:
    before = threading.active_count()
    base = KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder())
    base.add(Document(id="a", text="A text."))
    holder = [base]
    del base
    with pytest.warns(ResourceWarning, match=r"kb\.db was not closed"):
        holder.clear()
    gc.collect()
    ends = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < ends:
        time.sleep(0.01)
    assert threading.active_count() == before
