"""What may be wrong with the rows of a base, for every SQL store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from lagotto.documents import Document, iso
from lagotto.indexes.base import REBUILD, Finding, note, ok, problem
from lagotto.stores.base import BaseConfig, fingerprint
from lagotto.stores.sql import statements
from lagotto.stores.sql.changelog import SqlChangeLog
from lagotto.stores.sql.generations import read_next
from lagotto.stores.sql.read import document_of, read_config, unit_vectors
from lagotto.stores.sql.statements import CURRENT, FINDABLE, ReadConnection, Statement
from lagotto.stores.sql.write import longest_short_text

SHOWN = 5
"""Documents that a finding names."""

MANY_REMOVALS = 10_000

_OWN_HASH = re.compile("[0-9a-f]{32}")

_COUNTS = Statement(f"""
SELECT
    (SELECT count(*) FROM document) AS documents,
    (SELECT count(*) FROM chunk WHERE {FINDABLE}) AS chunks,
    (SELECT count(*) FROM chunk JOIN document ON document.key = chunk.document_key
     LEFT JOIN chunk_text ON chunk_text.chunk_key = chunk.key
     WHERE chunk_text.chunk_key IS NULL AND chunk.generation = {CURRENT}
     AND length(document.text) > :short) AS without_text,
    (SELECT count(*) FROM chunk_cache WHERE expires_at <= :now) AS expired,
    (SELECT count(*) FROM removal) AS removals
""")
_WITHOUT_VECTOR = Statement(f"""
SELECT document.collection, document.id, count(*)
FROM chunk JOIN document ON document.key = chunk.document_key
LEFT JOIN embedding ON embedding.chunk_key = chunk.key AND embedding.model_id = :model
WHERE {FINDABLE} AND embedding.chunk_key IS NULL
GROUP BY document.collection, document.id ORDER BY document.collection, document.id
""")
_MODELS = Statement(
    f"SELECT model_id, count(*) FROM embedding WHERE generation = {CURRENT} GROUP BY model_id"
)
_FORMER_CONTENTS = Statement("""
SELECT document.collection, document.id
FROM document JOIN chunk_set ON chunk_set.document_key = document.key
WHERE chunk_set.content_hash <> document.content_hash ORDER BY document.collection, document.id
""")
_DOCUMENTS = Statement("SELECT collection, id, key FROM document ORDER BY collection, id")
_CHUNK_TEXTS = Statement("""
SELECT chunk.start, chunk."end", chunk_text.text
FROM chunk JOIN chunk_text ON chunk_text.chunk_key = chunk.key WHERE chunk.document_key = :document
""")
_OWNERS = Statement("""
SELECT DISTINCT document.collection, document.id
FROM document JOIN chunk ON chunk.document_key = document.key WHERE chunk.key IN (:keys key)
ORDER BY document.collection, document.id
""")
_GENERATIONS = Statement("SELECT generation, count(*) FROM chunk GROUP BY generation")


def check_rows(connection: ReadConnection) -> list[Finding]:
    """What a base holds, and which of its rows are inconsistent."""
    config = read_config(connection)
    parameters = {"short": longest_short_text(connection), "now": iso(datetime.now(UTC))}
    (counts,) = _COUNTS.records(connection, **parameters)
    return [
        *_summary(config, counts),
        *_derived(connection, config, counts),
        *_changed_documents(connection),
        *_damaged_vectors(connection, config),
        *_leftovers(counts),
        *_generations(connection, config),
    ]


def _summary(config: BaseConfig, counts: dict[str, int]) -> Iterator[Finding]:
    model = config.model_id
    model_name = f"{model} (dimension {config.dimension})" if model else "no model yet"
    yield ok(f"{counts['documents']} documents, {counts['chunks']} chunks, vectors of {model_name}")
    if source := config.unfinished_copy_of:
        yield problem(
            f"it is an unfinished copy of {source}, and lacks some of its documents",
            "unless the copy is running, run `lagotto copy` again to complete it",
        )


def _derived(
    connection: ReadConnection, config: BaseConfig, counts: dict[str, int]
) -> Iterator[Finding]:
    """What is derived from documents by nothing, by another model or from other contents."""
    if rows := _WITHOUT_VECTOR.rows(connection, model=config.model_id or ""):
        yield _add_again(f"{sum(row[2] for row in rows)} chunks have no vector: {_named(rows)}")
    counted = _MODELS.rows(connection)
    others = sorted(f"{model} ({count})" for model, count in counted if model != config.model_id)
    if others:
        yield problem(
            f"there are vectors of other models than {config.model_id}: {', '.join(others)}",
            "make a new base and add the documents to it",
        )
    if rows := _FORMER_CONTENTS.rows(connection):
        yield _add_again(f"the chunks are of a former content: {_named(rows)}")
    if lost := counts["without_text"]:
        yield note(f"{lost} chunks have no stored text, which slows reading them", REBUILD)


def _changed_documents(connection: ReadConnection) -> Iterator[Finding]:
    """Documents that are not what their hashes say, and chunks that are not of their document.

    A document at a time is read to compare them.
    """
    changed, other = [], []
    for row in _DOCUMENTS.rows(connection):
        document = _whole_document(connection, *row[:2])
        if document is None:
            changed.append(row)
        elif any(
            document.text[start:end] != stored
            for start, end, stored in _CHUNK_TEXTS.rows(connection, document=row[2])
        ):
            other.append(row)
    if changed:
        yield _add_again(f"documents are not what their hashes say: {_named(changed)}")
    if other:
        yield _add_again(f"the texts of chunks are not those of the document: {_named(other)}")


def _whole_document(connection: ReadConnection, collection: str, name: str) -> Document | None:
    """A document, None if it is damaged.

    `content_hash` may also be the caller's own, such as an ETag; it is compared if it has the form
    of ours.
    """
    named = {"collection": collection, "document_id": name}
    (record,) = statements.DOCUMENT.records(connection, **named)
    try:
        document = document_of(record)
        plain = document.model_dump(exclude={"content_hash"})
        content_hash = Document.model_validate(plain).content_hash
    except ValueError:
        return None
    ours = _OWN_HASH.fullmatch(document.content_hash) is not None
    same = document.content_hash == content_hash or not ours
    return document if same and fingerprint(document) == record["fingerprint"] else None


def _damaged_vectors(connection: ReadConnection, config: BaseConfig) -> Iterator[Finding]:
    """A vector that is not of length 1 could outrank all others."""
    changes = SqlChangeLog(connection)
    damaged: list[int] = []
    for start, stop in changes.ranges(since=0):
        parameters = {"start": start, "stop": stop, "generation": None, "model_id": config.model_id}
        rows = statements.ADDED_VECTORS.rows(connection, **parameters)
        whole, _ = unit_vectors(rows, config.dimension or 0, warn=False)
        damaged += {key for key, _ in rows} - set(whole.tolist())
    if damaged:
        owners = _OWNERS.rows(connection, keys=damaged)
        yield _add_again(f"{len(damaged)} vectors are damaged: {_named(owners)}")


def _leftovers(counts: dict[str, int]) -> Iterator[Finding]:
    """Removals stay in the change log for a while, for indexes that have not applied them."""
    if counts["expired"]:
        what = f"{counts['expired']} sets of cached chunks have expired"
        yield note(what, "the next search that caches chunks drops them")
    if counts["removals"] >= max(MANY_REMOVALS, counts["chunks"]):
        what = f"{counts['removals']} removed chunks are still in the change log, more than there"
        yield note(f"{what} are chunks", "`lagotto copy` makes a base without them")


def _generations(connection: ReadConnection, config: BaseConfig) -> Iterator[Finding]:
    """Whether a rebuild was left unfinished, or did not come to delete what it replaced."""
    counts: dict[int, int] = dict(map(tuple, _GENERATIONS.rows(connection)))
    if (following := read_next(connection)) is not None:
        chunks = counts.pop(following.generation, 0)
        yield note(
            f"there is an unfinished rebuild ({chunks} chunks); searches do not see it",
            "unless it is running, run `lagotto rebuild` with the same options to continue it",
        )
    counts.pop(config.generation, None)
    if counts:
        what = f"there are {sum(counts.values())} chunks from before a rebuild, which are not used"
        yield note(what, "the next `lagotto rebuild` deletes them")


def _add_again(what: str) -> Finding:
    return problem(what, "remove these documents with `lagotto remove ID` and add them again")


def _named(rows: Sequence[Sequence[Any]]) -> str:
    names = [f"{row[0]}/{row[1]}" for row in rows[:SHOWN]]
    return ", ".join([*names, f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else names)
