"""SQL as text is only in the modules listed here; the tables are described by SQLAlchemy."""

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
    "models/cache.py": "a cache in a file",
    "models/fetch.py": "a lock on fetched models",
    # every SQL store
    "stores/sql/__init__.py": "steps from a schema to the next one",
    "stores/sql/checks.py": "what may be wrong with rows",
    "stores/sql/chunk_cache.py": "rows of the cache that go",
    "stores/sql/extras.py": "keyed values and source files",
    "stores/sql/filters.py": "conditions of filters",
    "stores/sql/generations.py": "rows of former generations that go",
    "stores/sql/statements.py": "all that searches, indexes and listings read",
    "stores/sql/write.py": "documents, chunks, vectors and the change log",
    # SQLite
    "stores/sqlite/checks.py": "PRAGMA quick_check, VACUUM",
    "stores/sqlite/database.py": "PRAGMAs, BEGIN, a lock on a file that may not be a base",
    "stores/sqlite/fts5.py": "MATCH, tables of FTS5",
    "stores/sqlite/write.py": "PRAGMAs that mark a base",
    # PostgreSQL
    "stores/postgres/database.py": "COPY, locks, types of pgvector, settings of connections",
    "stores/postgres/native.py": "tsqueries, ts_rank, pg_trgm over texts, one statement for both",
    "stores/postgres/schema.py": "extensions, storage options, who else is connected",
    "stores/postgres/store.py": "catalogs of the server, sizes on disk, advisory locks",
    "stores/postgres/text_index.py": "postings as binary rows",
    "stores/postgres/vector_index.py": "HNSW, operators of pgvector",
    "stores/postgres/view_factory.py": "the state of a base, by one statement",
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
