"""Reading is a part of every search."""

from __future__ import annotations

from lagotto.stores.sql.statements import select_passages


def test_the_statement_of_a_search_is_compiled_only_once() -> None:
    """SQLAlchemy keeps what it has compiled if every part of a statement can be compared."""
    one, other = (select_passages()._generate_cache_key() for _ in range(2))
    assert one is not None
    assert one == other
