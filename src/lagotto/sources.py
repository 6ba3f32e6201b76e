"""What is given to `add`: paths and Documents, told apart, and how the files are to be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lagotto.documents import Document, storable
from lagotto.errors import ConfigError
from lagotto.readers import Columns, ReadOptions
from lagotto.readers.language import with_language


def paths_and_documents(
    sources: Sequence[str | Path | Document], language: str | None
) -> tuple[list[str | Path], Iterator[Document]]:
    """The paths and addresses among `sources`, and the Documents with their languages."""
    for source in sources:
        _check(source)
    paths = [source for source in sources if not isinstance(source, Document)]
    documents = (source for source in sources if isinstance(source, Document))
    return paths, (with_language(document, language) for document in documents)


def _check(source: object) -> None:
    if isinstance(source, str | os.PathLike | Document):
        return
    several = isinstance(source, Iterable) and not isinstance(source, bytes | Mapping)
    advice = "; pass its items one by one, as in add(*documents)" if several else ""
    raise ConfigError(
        f"add takes paths, addresses and Documents, not {type(source).__name__}{advice}"
    )


def read_options(
    collection: str,
    language: str | None,
    metadata: Mapping[str, Any] | None,
    columns: Columns | None,
) -> ReadOptions:
    """How to read files; ConfigError for a collection without a proper name."""
    if not collection:
        raise ConfigError("a collection needs a name; leave it out for the default one")
    if collection != storable(collection):
        raise ConfigError(f"the collection {collection!r} is not valid Unicode text; rename it")
    return ReadOptions(
        collection=collection,
        language=language,
        metadata=dict(metadata or {}),
        columns=columns or Columns(),
    )
