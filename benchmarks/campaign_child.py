"""Processes that are killed; they start quickly, forked from one that has loaded all modules."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple


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
