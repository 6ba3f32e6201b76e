"""The processes of the campaign: how one is started, heard and killed, and what it does.

They start quickly, forked from one that has loaded all modules.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from campaign_site import CHOICES, FILES, NAMES, Changes, Site, State, document_of
from lagotto.base.copy import copy_base
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import DEFAULT_COLLECTION
from lagotto.errors import StoreUnavailableError

WRITES = ("add", "update", "remove")


class Message(NamedTuple):
    """What a process said: a verb, what it is about, and when (the same clock for all)."""

    verb: str
    about: Any
    at: float


Say = Callable[[str, Any], None]


def start_server() -> None:
    """Have children forked from a process that has the modules of the campaign."""
    folders = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    multiprocessing.set_forkserver_preload(["campaign_worker"])


class Child:
    """A process that runs `work(task, say)`; the constructor returns when it does.

    `messages` is what it has said so far; `listen` and `kill` extend it.
    """

    def __init__(self, work: Callable[[Any, Say], None], task: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(work, task, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.messages: list[Message] = []
        self.started: float = self.connection.recv().at

    @property
    def acknowledged(self) -> list[float]:
        """When it acknowledged its calls."""
        return [message.at for message in self.messages if message.verb == "did"]

    def receive(self) -> None:
        """Take one message."""
        try:
            self.messages.append(self.connection.recv())
        except (EOFError, OSError):  # it has ended, maybe in the middle of a message
            self.connection.close()

    def kill(self) -> None:
        """Kill it, and take what it had said before."""
        self._process.kill()
        self._process.join()
        while not self.connection.closed:
            self.receive()


def listen(
    children: Sequence[Child], *, seconds: float, enough: Callable[[], bool] = lambda: False
) -> None:
    """Take what the children say for so long, or until it is `enough`."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not enough():
        talking = [child for child in children if not child.connection.closed]
        if not talking:
            time.sleep(left)
        heard = wait([child.connection for child in talking], timeout=left)
        for child in talking:
            if child.connection in heard:
                child.receive()


def _run(work: Callable[[Any, Say], None], task: Any, connection: Connection) -> None:
    def say(verb: str, about: Any) -> None:
        connection.send(Message(verb, about, time.monotonic()))

    logging.disable(logging.WARNING)  # an index that is rebuilt says so
    say("ready", None)
    work(task, say)


class Task(NamedTuple):
    """What a process has to do.

    `stored` is what the base holds, `names` are those of the documents that may be changed,
    `target` is where to copy to, `choice` what to rebuild the base with.
    """

    operation: str
    site: Site
    seed: int
    stored: State
    names: range = NAMES
    target: Site | None = None
    choice: int = 0


def work(task: Task, say: Say) -> None:
    """Run the operation, then wait to be killed; a server that is killed ends it too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(OPERATIONS.get(task.operation, _write)(task, say))
    except StoreUnavailableError:
        pass
    except Exception as exc:  # noqa: BLE001 the finding itself
        say("failed", f"{type(exc).__name__}: {exc}")
    signal.pause()


async def _write(task: Task, say: Say) -> None:
    """Add, update or remove documents, one call after another."""
    chance = random.Random(task.seed)
    changes = Changes(chance, names=task.names, first=10_000 * (1 + task.seed))
    stored = dict(task.stored)
    async with task.site.base() as base:
        while True:
            change = _change(task.operation, changes, stored, chance)
            say("will", change)
            await apply(base, change)
            say("did", change)
            stored |= change
            if chance.random() < 0.4:
                await base.retrieve(chance.choice(["truffle dog", "zq7x"]), top_k=3)


def _change(operation: str, changes: Changes, stored: State, chance: random.Random) -> State:
    if operation == "mixed":
        operation = chance.choice(WRITES)
    if operation == "update":
        return changes.update(stored)
    return changes.add() if operation == "add" else changes.remove()


async def apply(base: AsyncKnowledgeBase, change: State) -> None:
    """Bring the documents of `change` to their versions."""
    documents = [document_of(name[1], version) for name, version in change.items() if version]
    gone = [name[1] for name, version in change.items() if version is None]
    if documents:
        await base.add(*documents)
    if gone:
        await base.remove(*gone, collection=DEFAULT_COLLECTION)


async def _create(task: Task, say: Say) -> None:
    """Make a base where there is none, with the first documents."""
    assert task.target is not None
    change = Changes(random.Random(task.seed), first=10_000 * (1 + task.seed)).add()
    say("will", change)
    async with task.target.new_base() as base:
        await apply(base, change)
        say("did", change)


async def _sync(task: Task, say: Say) -> None:
    async with task.site.base() as base:
        await base.sync(task.site.folder, collection=FILES)
        say("did", {})


async def _rebuild(task: Task, say: Say) -> None:
    async with task.site.base() as base:
        await base.rebuild(**CHOICES[task.choice])
        say("did", {})


async def _index(task: Task, say: Say) -> None:
    """Build the indexes: by a search where they are gone, or by a rebuild of them alone."""
    async with task.site.base() as base:
        if task.choice or task.site.on_server:
            await base.rebuild()
        else:
            await base.retrieve("truffle", top_k=3)
        say("did", {})


async def _copy(task: Task, say: Say) -> None:
    assert task.target is not None
    source, target = task.site.store(), task.target.store()
    await source.open()
    await target.open()
    await copy_base(source, target)
    await target.close()
    await source.close()
    say("did", {})


OPERATIONS: dict[str, Callable[[Task, Say], Coroutine[Any, Any, None]]] = {
    "create": _create,
    **dict.fromkeys(WRITES, _write),
    "sync": _sync,
    "rebuild": _rebuild,
    "index": _index,
    "copy": _copy,
}
