"""Checks of a base on a server; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Row, text

from lagotto.indexes.base import Finding, IndexState
from lagotto.indexes.findings import REBUILD
from lagotto.indexes.registry import IndexChoice
from lagotto.stores.postgres.chunk_words import chunks_without_words
from lagotto.stores.postgres.text_index.reindex import is_current
from lagotto.stores.postgres.vector_index.graph import GRAPH_FROM
from lagotto.stores.sql.checks import check_rows
from lagotto.stores.sql.read import counter

_FACTS = text("""
SELECT
    (SELECT string_agg(extname || ' ' || extversion, ', ' ORDER BY extname) FROM pg_extension
     WHERE extname IN ('vector', 'pg_trgm')) AS extensions,
    (SELECT count(*) FROM chunk WHERE level != 'parent') AS chunks,
    (SELECT count(*) FROM chunk LEFT JOIN chunk_terms ON chunk_key = key
     WHERE level != 'parent' AND chunk_key IS NULL) AS without_terms,
    (SELECT value FROM counter WHERE name = 'indexed_chunks') AS counted,
    (SELECT coalesce(sum(chunks), 0) FROM segment) - (SELECT count(*) FROM gone) AS in_segments,
    (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('embedding_graph')) AS graph,
    (SELECT datctype FROM pg_database WHERE datname = current_database()) AS ctype
""")


def index_states(connection: Connection, remote: IndexChoice) -> Iterator[IndexState]:
    """The state of the indexes in tables: they are written with the chunks, so they never lag."""
    last = counter(connection, "change")
    if remote.text is None:
        yield IndexState(role="text", kind="postings", indexed_up_to=last, changes=last)
    if remote.vectors is None:
        yield IndexState(role="vectors", kind="pgvector", indexed_up_to=last, changes=last)


def findings(connection: Connection, remote: IndexChoice) -> list[Finding]:
    """All findings about the base; `remote` names the indexes that are not in tables."""
    facts = connection.execute(_FACTS).one()
    found = [
        *check_rows(connection),
        Finding(level="ok", what=f"the server has {facts.extensions}"),
    ]
    if remote.vectors is None:
        found += _of_vectors(facts)
    if remote.text is None:
        found += _of_text(facts, current=is_current(connection))
        found += _of_native_text(chunks_without_words(connection))
    return found


def _of_vectors(facts: Row[tuple[object, ...]]) -> Iterator[Finding]:
    if facts.chunks >= GRAPH_FROM and not facts.graph:
        yield Finding(
            level="note",
            what="the vectors have no index, so every search reads all of them",
            advice="add a document; the index is built when the base is closed",
        )


def _of_text(facts: Row[tuple[object, ...]], *, current: bool) -> Iterator[Finding]:
    if facts.without_terms or {facts.counted, facts.in_segments} != {facts.chunks}:
        yield Finding(
            level="problem",
            what=f"the full-text index counts {facts.counted} chunks, has postings of "
            f"{facts.in_segments}, and lacks {facts.without_terms}",
            advice=REBUILD,
        )
    if not current:
        yield Finding(
            level="note",
            what="the full-text index was built with other rules for terms",
            advice="open the base as a user who may write, which rebuilds the index",
        )
    if facts.ctype in ("C", "POSIX"):
        yield Finding(
            level="note",
            what=f"the database has LC_CTYPE {facts.ctype}, with which pg_trgm knows only ASCII "
            "letters: misspelt words in other scripts are not corrected",
            advice="create a database with LC_CTYPE 'C.UTF-8', and run `lagotto copy`",
        )


def _of_native_text(without_words: int) -> Iterator[Finding]:
    if without_words:
        yield Finding(
            level="problem",
            what=f"{without_words} chunks are missing from the index for ts_rank and ts_rank_cd",
            advice=REBUILD,
        )
