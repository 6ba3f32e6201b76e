"""The documents of the campaign, and what a base may hold after a kill.

A document is made from its name and a Version, so processes exchange versions instead of texts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from lagotto.documents import DEFAULT_COLLECTION, Document

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
