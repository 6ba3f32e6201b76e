"""The deadline of a search as a statement timeout: a query ends even if its client has died."""

from __future__ import annotations

from typing import LiteralString

from sqlalchemy import Connection

from lagotto.request_context import time_left

SLACK = 1.0
"""Seconds after the deadline in which the client cancels the query itself."""

SHORTEST, LONGEST = 0.001, 2_000_000.0
"""Seconds; the server counts milliseconds in 32 bits, and takes none for no limit."""

SET_STATEMENT_TIMEOUT: LiteralString = """
set_config('statement_timeout', (1000 * extract(epoch FROM least(
    nullif(current_setting('statement_timeout')::interval, interval '0'),
    make_interval(secs => %(limit)s)
)))::int::text, true)"""
"""Applies until the end of the transaction; a shorter limit set on the server stays."""


def limit() -> float | None:
    """Seconds that a statement may take on the server from now on, None for no limit."""
    left = time_left()
    return None if left is None else min(max(left + SLACK, SHORTEST), LONGEST)


def set_statement_timeout(connection: Connection) -> None:
    """Limit the statements of a transaction if its search has a deadline."""
    seconds = limit()
    if seconds is not None:
        connection.exec_driver_sql(f"SELECT {SET_STATEMENT_TIMEOUT}", {"limit": seconds})
