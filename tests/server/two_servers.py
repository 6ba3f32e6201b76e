"""Two servers on one base while a third process writes: what they answer, and how soon."""

from __future__ import annotations

import re
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.child_process import child, said
from tests.server.server_process import server_process

WITHIN = 1.0
"""Seconds after the commit of a document in which a search may still begin and not find it."""
REVISIONS = 12

WRITER = """
import sys, time
from lagotto import Document, KnowledgeBase
from lagotto.testing.hash_embedder import HashEmbedder
from tests.server.two_servers import REVISIONS, text_of
kb = KnowledgeBase(sys.argv[1], embedder=HashEmbedder(), chunker="recursive:60/0")
kb.add(Document(id="shared", text=text_of(0)))
print(len(kb.chunks("shared")), flush=True)
sys.stdin.readline()
for revision in range(1, REVISIONS + 1):
    kb.add(Document(id="shared", text=text_of(revision)))
    print(revision, time.monotonic(), flush=True)
    time.sleep(0.1)
"""


def text_of(revision: int) -> str:
    """A document whose chunks name its revision, and how many chunks it has."""
    count = 3 + revision % 4
    parts = (f"heron rev{revision} of{count} " + f"word{part} " * 25 for part in range(count))
    return "\n\n".join(parts)


@dataclass
class Seen:
    """What one server answered: when it was asked and which revision it had, and half ones."""

    found: list[tuple[float, int]] = field(default_factory=list)
    halves: list[Any] = field(default_factory=list)

    def note(self, started: float, texts: list[str], *, whole: bool) -> None:
        """An answer to a request that was sent at a moment."""
        named = [re.findall(r"rev(\d+) of(\d+)", text) for text in texts]
        kinds = {kind for found in named for kind in found}
        if len(kinds) != 1 or not all(named):
            self.halves.append(texts)
            return
        ((revision, count),) = kinds
        if whole and len(texts) != int(count):
            self.halves.append(texts)
        self.found.append((started, int(revision)))


def watch(http: httpx.Client, seen: Seen, ended: threading.Event) -> None:
    """Search, and read the document and its chunks, until told to stop."""
    body = {"query": "heron", "top_k": 50, "filters": {"document_id": "shared"}}
    while not ended.is_set():
        for mode in ("hybrid", "keyword", "semantic"):
            started = time.monotonic()
            answer = http.post("/v1/retrieve", json={**body, "mode": mode})
            texts = [hit["content"] for hit in answer.raise_for_status().json()["hits"]]
            seen.note(started, texts, whole=True)
        started = time.monotonic()
        chunks = http.get("/v1/chunks/shared").raise_for_status().json()["chunks"]
        seen.note(started, [chunk["text"] for chunk in chunks], whole=True)
        pack = http.post("/v1/context", json={"query": "heron"}).raise_for_status().json()
        seen.note(started, [pack["context_pack"]], whole=False)


def check_two_servers(location: str) -> None:
    """Every revision is found by both servers in time, and no answer has a part of one."""
    ended = threading.Event()
    with ExitStack() as stack:
        writer = stack.enter_context(child(WRITER, location))
        assert int(said(writer)) == 3
        clients = [stack.enter_context(server_process(location))[0] for _ in range(2)]
        both = [Seen(), Seen()]
        threads = [
            threading.Thread(target=watch, args=(http, seen, ended))
            for http, seen in zip(clients, both, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            commits = dict(_committed(said(writer)) for _ in range(REVISIONS))
            until = time.monotonic() + 60
            while time.monotonic() < until and not all(map(_is_through, both)):
                time.sleep(0.02)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    for seen in both:
        assert seen.halves == []
        assert len(seen.found) > 20
        assert _is_through(seen)
        stale = [
            (revision, asked - committed)
            for asked, found in seen.found
            for revision, committed in commits.items()
            if found < revision and asked > committed + WITHIN
        ]
        assert stale == []


def _is_through(seen: Seen) -> bool:
    return any(revision == REVISIONS for _, revision in seen.found)


def _committed(line: str) -> tuple[int, float]:
    revision, moment = line.split()
    return int(revision), float(moment)
