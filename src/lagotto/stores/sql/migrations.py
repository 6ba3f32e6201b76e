"""Schema changes, in order. A new base is made as it is now; an older one goes step by step.

To change the schema: raise SCHEMA_VERSION, and add the step that makes a base of the version before
one of this version, whatever the dialect. A step describes its tables itself, since `tables.py`
goes on changing.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from lagotto.stores.sql import SCHEMA_VERSION

STEPS: dict[int, Callable[[Connection], None]] = {}
"""By the version that they make."""


def migrate(connection: Connection, version: int, *, target: int = SCHEMA_VERSION) -> None:
    """Bring a base of `version` to `target`, within the caller's transaction."""
    for step in range(version + 1, target + 1):
        STEPS[step](connection)
