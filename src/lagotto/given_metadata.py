"""Metadata given when files were added: it belongs to the path it was given for.

A base stores it by path, so that reading a file again, alone or with its folder, does not lose it.
What is given for a folder counts for everything below; what is given for a path further down, and
what is given later, takes precedence, key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lagotto.documents import Document, Metadata
from lagotto.readers import ReadFailure
from lagotto.readers.base import is_address
from lagotto.stores.source_files import SourceFiles


class GivenMetadata:
    """What was given for the paths of a collection, up to the present call."""

    def __init__(self, stored: Mapping[str, Metadata]) -> None:
        self._by_path = dict(stored)

    @classmethod
    async def load(
        cls,
        files: SourceFiles,
        collection: str,
        paths: Sequence[str | Path],
        metadata: Metadata,
    ) -> GivenMetadata:
        """What is stored, with `metadata` for `paths`, which is stored from now on."""
        given = cls(await files.given(collection))
        new = {
            name: {**given._by_path.get(name, {}), **metadata}
            for name in map(name_of, paths if metadata else ())
        }
        changed = {name: value for name, value in new.items() if value != given._by_path.get(name)}
        given._by_path |= changed
        if changed:
            await files.give(collection, changed)
        return given

    def of(self, source: str) -> Metadata:
        """The metadata given for a source and for the folders above it, the nearest last."""
        if not self._by_path:
            return {}
        found: dict[str, Any] = {}
        for name in _above(source):
            found |= self._by_path.get(name, {})
        return found

    def applied(
        self, results: Iterable[Document | ReadFailure]
    ) -> Iterator[Document | ReadFailure]:
        """Documents with what was given for their sources, over what they have themselves."""
        for result in results:
            given = self.of(result.source) if isinstance(result, Document) else {}
            yield with_metadata(result, given) if isinstance(result, Document) else result


def with_metadata(document: Document, given: Metadata) -> Document:
    """The document with `given` over its own metadata."""
    if not given:
        return document
    return document.model_copy(update={"metadata": {**document.metadata, **given}})


def name_of(path: str | Path) -> str:
    """A path as the sources below it begin; a web address as it is."""
    return str(path) if is_address(path) else str(Path(path).expanduser().resolve())


def _above(source: str) -> list[str]:
    """The folders of a source, outermost first, and the source itself."""
    if is_address(source):
        return [source]
    return [*map(str, reversed(Path(source).parents)), source]
