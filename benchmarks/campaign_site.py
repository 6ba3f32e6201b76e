"""Where a base of the campaign is, and the documents in it.

A document is made from its name and a Version, so processes exchange versions instead of texts.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import psycopg

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.documents import DEFAULT_COLLECTION, Document
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


FILES = "files"
"""The collection of the documents that `sync` reads from a folder."""

NAMES = range(60)
"""Numbers of the documents that are not in FILES."""

WORDS = (
    "water", "dog", "truffle", "oak", "root", "hazel", "lake", "winter", "patience", "smell",
    "hill", "soil", "autumn", "basket", "curly", "coat", "nose", "search", "field", "morning",
    "rain", "spring", "farmer", "market", "summer", "village", "river", "forest", "stone",
)  # fmt: skip


class Version(NamedTuple):
    """What a document is made of: `number` and `words` make the text, `tag` is metadata."""

    number: int
    words: int
    tag: int = 0


Name = tuple[str, str]
"""Collection and id; in FILES the stem of the file."""

State = dict[Name, Version | None]
"""The version of each document, None for one that was removed."""


def text_of(name: str, version: Version) -> str:
    """A text that is found by its name, and by a word that only this version has."""
    chance = random.Random(f"{name}/{version.number}")
    return f"{name} {mark_of(name, version)} " + " ".join(chance.choices(WORDS, k=version.words))


def mark_of(name: str, version: Version) -> str:
    """The word of one version."""
    return f"{name}v{version.number}"


def document_of(name: str, version: Version) -> Document:
    """The document of a name that is not in FILES."""
    metadata = {"name": name, "version": list(version)}
    text = text_of(name, version)
    return Document(id=name, title=name, text=text, language="en", metadata=metadata)


def is_version(document: Document, name: Name, version: Version | None) -> bool:
    """Whether a stored document is exactly this version of `name`."""
    if version is None:
        return False
    if name[0] == FILES:
        return document.text == text_of(name[1], version)
    return document == document_of(name[1], version)


class Changes:
    """Random changes of the documents `names`; versions are numbered from `first` on."""

    def __init__(self, chance: random.Random, *, first: int, names: range = NAMES) -> None:
        self._chance = chance
        self._names = names
        self._number = first

    def add(self) -> State:
        """Documents to add or replace; some have hundreds of chunks."""
        most = 3_000 if self._chance.random() < 0.15 else 100
        return {name: self._version(most) for name in self._some()}

    def update(self, stored: Mapping[Name, Version | None]) -> State:
        """Stored documents with another text, or with the same text and other metadata."""
        own = [(DEFAULT_COLLECTION, f"zq{number}x") for number in self._names]
        living = [name for name in own if stored.get(name)]
        chosen = self._chance.sample(living, min(len(living), self._chance.randint(1, 6)))
        if self._chance.random() < 0.5:
            return {name: self._version(100) for name in chosen}
        self._number += 1
        return {
            name: version._replace(tag=self._number)
            for name in chosen
            if (version := stored[name]) is not None
        }

    def remove(self) -> State:
        """Documents to remove, whether they are stored or not."""
        return dict.fromkeys(self._some())

    def files(self) -> State:
        """Files to write, and files to delete."""
        return {
            (FILES, f"yk{number}x"): None if self._chance.random() < 0.3 else self._version(200)
            for number in self._chance.sample(range(30), self._chance.randint(1, 20))
        }

    def _some(self) -> list[Name]:
        numbers = self._chance.sample(self._names, self._chance.randint(1, 6))
        return [(DEFAULT_COLLECTION, f"zq{number}x") for number in numbers]

    def _version(self, most: int) -> Version:
        self._number += 1
        return Version(self._number, self._chance.randint(5, most))
