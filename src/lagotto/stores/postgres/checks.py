"""Looking for what may be wrong with a base, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Row, text

from lagotto.indexes.base import Finding, IndexState
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

REMAKE_TEXT = (
    "run: UPDATE setting SET value = '' WHERE name = 'text_rules'; and open the base again, which "
    "makes the full-text index anew"
)


def index_states(connection: Connection) -> Iterator[IndexState]:
    """The indexes of the base: written with the chunks, so they never lag."""
    last = counter(connection, "change")
    yield IndexState(role="text", kind="postings", indexed_up_to=last, changes=last)
    yield IndexState(role="vectors", kind="pgvector", indexed_up_to=last, changes=last)


def findings(connection: Connection) -> list[Finding]:
    """What there is to say about the base."""
    facts = connection.execute(_FACTS).one()
    return [
        *check_rows(connection),
        Finding(level="ok", what=f"the server has {facts.extensions}"),
        *_of_vectors(facts),
        *_of_text(facts, current=is_current(connection)),
        *_of_native_text(chunks_without_words(connection)),
    ]


def _of_vectors(facts: Row[tuple[object, ...]]) -> Iterator[Finding]:
    if facts.chunks >= GRAPH_FROM and not facts.graph:
        yield Finding(
            level="note",
            what="there is no index of vectors, so all of them are looked at",
            advice="write something and close the base, which builds the index",
        )


def _of_text(facts: Row[tuple[object, ...]], *, current: bool) -> Iterator[Finding]:
    if facts.without_terms or {facts.counted, facts.in_segments} != {facts.chunks}:
        yield Finding(
            level="problem",
            what=f"the full-text index counts {facts.counted} chunks, with postings of "
            f"{facts.in_segments}, and {facts.without_terms} are missing",
            advice=REMAKE_TEXT,
        )
    if not current:
        yield Finding(
            level="note",
            what="the full-text index was made by other rules for terms",
            advice="open the base with the right to write, which makes it again",
        )
    if facts.ctype in ("C", "POSIX"):
        yield Finding(
            level="note",
            what=f"the database has the character type {facts.ctype}, in which pg_trgm knows only "
            "ASCII letters: misspelt words in other scripts are not mended",
            advice="make a database with LC_CTYPE 'C.UTF-8' and copy the base there",
        )


def _of_native_text(without_words: int) -> Iterator[Finding]:
    if without_words:
        yield Finding(
            level="problem",
            what=f"{without_words} chunks are missing in the index for ts_rank and ts_rank_cd",
            advice="run: DELETE FROM setting WHERE name = 'native_text'; the next search that asks "
            "for them makes the index anew",
        )
