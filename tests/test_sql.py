"""SQL as text is only in the modules listed here; everything else uses SQLAlchemy expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lagotto

ROOT = Path(lagotto.__file__).parent

ALLOWED = {
    # caches and locks outside of any base, on the sqlite3 module
    "indexes/folder.py": "a lock on the folder of indexes",
    "models/disk_cache.py": "a cache in a file",
    "models/fetched.py": "a lock on fetched models",
    # SQLite
    "stores/sqlite/checks.py": "PRAGMA quick_check, VACUUM",
    "stores/sqlite/connections.py": "PRAGMAs, BEGIN",
    "stores/sqlite/database.py": "PRAGMAs of a file that may not be a base",
    "stores/sqlite/discard.py": "an exclusive lock on a file that may not be a base",
    "stores/sqlite/engine.py": "kinds of transactions",
    "stores/sqlite/fts5_index.py": "MATCH",
    "stores/sqlite/fts5_tables.py": "tables of FTS5",
    "stores/sqlite/rebuild.py": "two attached files in one statement",
    "stores/sqlite/schema.py": "PRAGMAs that mark a base",
    # PostgreSQL
    "stores/postgres/adapters.py": "ranges of pages in filters",
    "stores/postgres/bulk_copy.py": "COPY",
    "stores/postgres/checks.py": "catalogs of the server",
    "stores/postgres/discard.py": "who else is connected",
    "stores/postgres/chunk_words.py": "tsvectors",
    "stores/postgres/database.py": "types of pgvector",
    "stores/postgres/locks.py": "advisory locks",
    "stores/postgres/native/index.py": "text search configurations, rights",
    "stores/postgres/native/search.py": "tsqueries and ts_rank",
    "stores/postgres/native/single_query.py": "both legs in one statement",
    "stores/postgres/native/trigram_text.py": "pg_trgm over texts",
    "stores/postgres/rebuild.py": "schemas",
    "stores/postgres/schema.py": "extensions and storage options",
    "stores/postgres/store.py": "sizes on disk",
    "stores/postgres/text_index/merge.py": "postings as binary rows",
    "stores/postgres/text_index/search.py": "postings as binary rows",
    "stores/postgres/text_index/write.py": "postings as binary rows",
    "stores/postgres/timeouts.py": "settings of a connection",
    "stores/postgres/vector_index/graph.py": "HNSW",
    "stores/postgres/vector_index/search.py": "operators of pgvector",
    "stores/postgres/view_factory.py": "aggregates as binary values",
    # migrations describe former tables
    "stores/sql/migrations/v0003.py": "a former table",
    "stores/sql/migrations/v0004.py": "former columns",
    "stores/sql/migrations/v0005.py": "former columns",
    "stores/sql/migrations/v0007.py": "former columns",
    "stores/sql/migrations/v0008.py": "columns it adds",
    "stores/sql/migrations/v0009.py": "a column it adds",
    "testing/former_versions.py": "the way back from them",
}
"""The modules with SQL as text, and what for."""

SQL = re.compile(
    r"\s*\(?\s*(?:SELECT|INSERT (?:OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|ALTER|DROP"
    r"|CREATE (?:\w+ )*(?:TABLE|INDEX|SCHEMA|EXTENSION)|WITH \w+ AS|PRAGMA|VACUUM|ATTACH|DETACH"
    r"|BEGIN|SAVEPOINT|REINDEX|ANALYZE|GRANT|COPY|WHERE|ORDER BY|UNION|LEFT JOIN)\b"
)
"""Beginnings of statements and clauses, in capitals as they are written here."""


def texts(tree: ast.AST) -> Iterator[str]:
    """The string literals of a module without docstrings."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield from [node.value] if isinstance(node.value, str) else []


def modules_with_sql() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if any(map(SQL.match, texts(ast.parse(path.read_text(encoding="utf-8")))))
    }


def test_sql_is_only_where_it_is_allowed() -> None:
    assert modules_with_sql() == set(ALLOWED)


def test_retrieval_knows_no_sql() -> None:
    """The stages of a search see protocols of stores alone."""
    assert not [name for name in ALLOWED if name.startswith(("retrieval/", "context/"))]
    for path in (ROOT / "retrieval").rglob("*.py"):
        assert "sqlalchemy" not in path.read_text(encoding="utf-8")


def test_the_check_sees_sql() -> None:
    tree = ast.parse('def f():\n    """SELECT nothing."""\n    return run("SELECT 1")\n')
    assert list(filter(SQL.match, texts(tree))) == ["SELECT 1"]
