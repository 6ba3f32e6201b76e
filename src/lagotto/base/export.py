"""Documents of a base as files, and back: JSON Lines with everything, or the layout of BEIR.

`jsonl` has a whole document per line, with its collection, metadata and structure, so that an
import gives the same documents under the same ids. `beir` is a folder with `corpus.jsonl` (`_id`,
`title`, `text`, `metadata`), which evaluation tools read; it has one collection and no structure.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from pydantic import ValidationError

from lagotto.documents import DEFAULT_COLLECTION, Document
from lagotto.errors import ConfigError, ReadError
from lagotto.readers import ReadFailure

ExportFormat = Literal["jsonl", "beir"]
CORPUS = "corpus.jsonl"
"""The file with the documents, in a folder in the layout of BEIR."""


async def export_to(
    path: Path,
    documents: AsyncIterator[Document],
    *,
    format: ExportFormat,  # noqa: A002
) -> int:
    """Write documents to a file, or for `beir` to a folder, and return how many there were.

    The file appears when it is complete, and replaces one that was there.
    """
    is_beir = format == "beir"
    count = 0
    with _replacing(_corpus_in(path) if is_beir else path) as file:
        collections: set[str] = set()
        async for document in documents:
            collections.add(document.collection)
            if is_beir and len(collections) > 1:
                names = " and ".join(sorted(collections))
                raise ConfigError(f"BEIR has one collection, not {names}; pass collection=")
            file.write((_beir_line(document) if is_beir else jsonl_line(document)) + "\n")
            count += 1
    return count


def jsonl_line(document: Document) -> str:
    """A document with all its fields; its content hash is computed again at the import."""
    return document.model_dump_json(exclude={"content_hash"}, exclude_none=True)


def _beir_line(document: Document) -> str:
    fields = {
        "_id": document.id,
        "title": document.title or "",
        "text": document.text,
        "metadata": document.metadata,
    }
    return json.dumps(fields, ensure_ascii=False)


def import_from(path: Path, *, collection: str | None = None) -> Iterator[Document | ReadFailure]:
    """The documents of an exported file, or of a folder in the layout of BEIR, line by line.

    A line that is no document is a ReadFailure that names it. The language of a document without
    one is detected, as `add` does. `collection` replaces that of the documents; without it those of
    BEIR go to the default one.
    """
    is_beir = path.is_dir()
    path = path / CORPUS if is_beir else path
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _parsed(f"{path}:{number}", line, collection, is_beir=is_beir)
    except OSError as exc:
        raise ReadError(str(path), f"can't be read: {exc.strerror}") from exc


def _parsed(
    name: str, line: str, collection: str | None, *, is_beir: bool
) -> Document | ReadFailure:
    from lagotto.readers.language import with_language  # not needed by a search

    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        if is_beir:
            fields = {
                "id": str(fields["_id"]),
                "title": fields.get("title") or None,
                "text": fields["text"],
                "metadata": fields.get("metadata") or {},
                "collection": fields.get("collection", DEFAULT_COLLECTION),
            }
        if collection:
            fields["collection"] = collection
        return with_language(Document.model_validate(fields))
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        reason = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else str(exc)
        return ReadFailure(
            source=name, reason=f"not an exported document ({reason})", error=type(exc).__name__
        )


def _corpus_in(folder: Path) -> Path:
    """The file with the documents in a folder, which is made if there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(f"{folder} can't be made a folder: {exc.strerror}") from exc
    return folder / CORPUS


@contextmanager
def _replacing(target: Path) -> Iterator[IO[str]]:
    """A text file that takes the place of `target` when the block ends without an error."""
    folder = target.absolute().parent
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{target.name}-")
    except OSError as exc:
        raise ConfigError(f"{folder} can't be written: {exc.strerror}") from exc
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
