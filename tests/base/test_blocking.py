from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase, LoopThread
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import Document
from lagotto.errors import EmbeddingError, StoreError
from lagotto.testing.hash_embedder import HashEmbedder
from tests.counting import CountingEmbedder

OF_THEIR_OWN = {"open", "run", "add_guarded"}
"""Methods that only one of the two has: the blocking base is open when it is made, and a server
guards what its callers may replace."""


def verbs(kind: type) -> dict[str, inspect.Signature]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: inspect.signature(member)
        for name, member in members
        if not name.startswith("_") and name not in OF_THEIR_OWN
    }


def test_both_bases_have_the_same_verbs() -> None:
    blocking, asynchronous = verbs(KnowledgeBase), verbs(AsyncKnowledgeBase)
    iterating = [found.pop("iter_documents") for found in (blocking, asynchronous)]
    assert iterating[0].parameters == iterating[1].parameters
    assert blocking == asynchronous
    assert inspect.signature(KnowledgeBase) == inspect.signature(AsyncKnowledgeBase)
    for name in verbs(KnowledgeBase):
        assert getattr(KnowledgeBase, name).__doc__
        assert not inspect.iscoroutinefunction(getattr(KnowledgeBase, name))


def test_a_context_manager_closes(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    with KnowledgeBase(tmp_path / "kb.db", embedder=embedder) as base:
        base.add(Document(id="a", text="A text."))
        assert base.retrieve("text")[0].document_id == "a"
    assert embedder.closed
    base.close()
    with pytest.raises(StoreError, match="closed; create a new KnowledgeBase"):
        base.retrieve("text")


def test_a_base_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(StoreError):
        KnowledgeBase(tmp_path, embedder=HashEmbedder())
    assert threading.active_count() == before


def test_errors_come_out_as_they_are() -> None:
    def fail(_: int) -> None:
        raise EmbeddingError("the model is gone")

    embedder = CountingEmbedder(before=fail)
    with (
        KnowledgeBase(":memory:", embedder=embedder) as base,
        pytest.raises(EmbeddingError, match="the model is gone"),
    ):
        base.add(Document(text="A text."))


def test_an_interrupt_before_the_start_does_not_hang() -> None:
    """The loop is busy with something else, so what is cancelled has not begun."""
    loop, done = LoopThread(), threading.Event()
    asyncio.run_coroutine_threadsafe(_busy(done), loop._loop)

    async def never() -> None:
        raise AssertionError("it should not run")

    def interrupt(*_: object) -> None:
        threading.Timer(0.2, done.set).start()  # long after what follows
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(never())
    finally:
        signal.signal(signal.SIGALRM, previous)
        done.set()
        loop.stop()


async def _busy(done: threading.Event) -> None:
    done.wait(60)


INTERRUPTED = """
import sys
from lagotto.documents import Document
from lagotto.base.blocking import KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder

def told(step):
    print(step.added, flush=True)

documents = [Document(id=f"d{number}", text=f"Text {number}.") for number in range(20_000)]
with KnowledgeBase(sys.argv[1], embedder=HashEmbedder()) as base:
    try:
        base.add(*documents, progress=told)
    except KeyboardInterrupt:
        print("interrupted", base.info().documents, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are different there")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_what_was_counted(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    command = [sys.executable, "-c", INTERRUPTED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        *counted, last = process.stdout.read().splitlines()
        assert process.wait() == 0
    word, stored = last.split()
    assert word == "interrupted"
    assert int(stored) == max(map(int, first + counted))
    embedder = CountingEmbedder()
    with KnowledgeBase(path, embedder=embedder) as base:
        assert base.info().documents == int(stored)
        again = [Document(id=f"d{number}", text=f"Text {number}.") for number in range(3_000)]
        report = base.add(*again)
        assert report.unchanged == min(int(stored), 3_000)
        assert len(embedder.texts) == report.added == max(0, 3_000 - int(stored))


def test_documents_are_streamed(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as base:
        documents = [
            Document(id=f"d{number:04}", text=f"Text {number}.", metadata={"odd": number % 2 == 1})
            for number in range(1_203)
        ]
        base.add(*documents)
        assert list(base.iter_documents()) == base.documents()
        assert len(base.documents()) == 1_203
        odd = list(base.iter_documents(filters={"odd": True}))
        assert [item.id for item in odd] == [f"d{number:04}" for number in range(1, 1_203, 2)]
        assert list(base.iter_documents(collection="none")) == []
        stream = base.iter_documents()
        assert next(stream).id == "d0000"
        base.remove("d0700", "d0000")
        base.add(Document(id="d0800", text="Another text."))
        rest = [item.id for item in stream]
        assert rest == [f"d{number:04}" for number in range(1, 1_203) if number != 700]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors by /proc")
def test_without_file_descriptors_is_an_error_of_ours() -> None:
    program = (
        "import os, resource\n"
        "from lagotto.errors import StoreError\n"
        "from lagotto.base.blocking import LoopThread\n"
        "used = len(os.listdir('/proc/self/fd'))\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1, hard))\n"
        "try:\n"
        "    LoopThread()\n"
        "except StoreError as exc:\n"
        "    print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Too many open files; raise the limit" in done.stdout
