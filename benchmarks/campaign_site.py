"""Where a base of the campaign is: a file with one of the text indexes, or a server."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg

from campaign_documents import FILES, State, text_of
from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.embedders import EMBEDDERS
from lagotto.stores.base import Store
from lagotto.stores.registry import create_store
from lagotto.testing.rebuild import hashed
from places import PostgresServer

KINDS = ("tantivy", "fts5", "postgresql", "server", "qdrant", "postgresql+qdrant")
"""Embedded bases with either text index; kills of the client of a server, and of the server; both
indexes of a file or of a server on Qdrant."""

ON_SERVER = ("postgresql", "server", "postgresql+qdrant")

CHOICES: tuple[dict[str, Any], ...] = (
    {"embedder": "hashed:one/64", "chunker": "recursive:12/0"},
    {"embedder": "hashed:two/32", "chunker": "sentence:24/4"},
)
"""What a base is made with, and what rebuilds change it to."""

_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid != pg_backend_pid()"
)

EMBEDDERS.register("hashed", hashed)


@dataclass(frozen=True, slots=True)
class Site:
    """A base, and a folder of files beside it for `sync`; can be sent to another process."""

    kind: str
    location: str
    folder: Path
    qdrant: str = ""
    """The address of the indexes, if they are on a Qdrant server."""

    @property
    def on_server(self) -> bool:
        """Whether the base is on a server."""
        return self.kind in ON_SERVER

    def store(self) -> Store:
        """The store of the base, closed."""
        if self.qdrant:
            return create_store(self.location, text_index=self.qdrant, vector_index=self.qdrant)
        return create_store(self.location, text_index=None if self.on_server else self.kind)

    def base(self) -> AsyncKnowledgeBase:
        """The base, closed; a new one is made with the first of CHOICES."""
        return AsyncKnowledgeBase(self.store())

    def new_base(self) -> AsyncKnowledgeBase:
        """A base that does not exist yet."""
        return AsyncKnowledgeBase(self.store(), **CHOICES[0])

    def settle(self) -> None:
        """Wait until the server has ended what a killed client has sent."""
        if self.on_server:
            with psycopg.connect(self.location, autocommit=True) as connection:
                while connection.execute(_OTHERS).fetchone() != (0,):
                    time.sleep(0.01)

    @contextmanager
    def target(self) -> Iterator[Site]:
        """A place of the same kind for a copy."""
        name = f"copy_{uuid4().hex[:8]}"
        if not self.on_server:
            with tempfile.TemporaryDirectory(prefix="lagotto-campaign-") as folder:
                yield replace(self, location=str(Path(folder) / "copy.db"))
            return
        options = quote(f"-csearch_path={name},public")
        with psycopg.connect(self.location, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"')
        yield replace(self, location=f"{self.location}&options={options}")
        with psycopg.connect(self.location, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE')

    def write_files(self, files: State, *, number: int) -> None:
        """Write and delete files; their times are past, each unlike all others."""
        for (collection, name), version in files.items():
            assert collection == FILES
            path = self.folder / f"{name}.txt"
            if version is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(text_of(name, version))
                os.utime(path, (number, number))

    def drop_indexes(self) -> None:
        """Delete what is derived, where that is a folder."""
        if not self.on_server and not self.qdrant:
            shutil.rmtree(f"{self.location}.index", ignore_errors=True)


@contextmanager
def made_site(kind: str) -> Iterator[tuple[Site, PostgresServer | None]]:
    """A place for a base, and its server, which keeps what it acknowledges."""
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="lagotto-campaign-"))
        folder = Path(name) / "files"
        folder.mkdir()
        server = stack.enter_context(PostgresServer({})) if kind in ON_SERVER else None
        location = server.url() if server else str(Path(name) / "kb.db")
        yield Site(kind, location, folder, _qdrant(kind, stack)), server


def _qdrant(kind: str, stack: ExitStack) -> str:
    """The address of a new Qdrant server, for a kind of base that has its indexes there."""
    if not kind.endswith("qdrant"):
        return ""
    from places import qdrant_cluster

    (node,) = stack.enter_context(qdrant_cluster())
    return node.address("campaign")
