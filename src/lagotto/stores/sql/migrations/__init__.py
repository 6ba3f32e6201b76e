"""Schema changes, in order. A new base is made as it is now; an older one goes step by step.

To change the schema: raise SCHEMA_VERSION in tables.py, add a module such as `v0002.py` with a
function `upgrade(connection)` that brings version 1 to version 2 and takes whatever dialect it is
given, name it in STEPS, and keep a base of the old version in the tests. A step describes its
tables itself, since `tables.py` goes on changing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from lagotto.stores.sql.migrations import v0002, v0003, v0004, v0005
from lagotto.stores.sql.tables import SCHEMA_VERSION

Upgrade = Callable[[Connection], None]

STEPS: Mapping[int, Upgrade] = {
    1: v0002.upgrade,
    2: v0003.upgrade,
    3: v0004.upgrade,
    4: v0005.upgrade,
}
"""From which version each step leads to the next."""


def migrate(
    connection: Connection,
    version: int,
    *,
    steps: Mapping[int, Upgrade] = STEPS,
    target: int = SCHEMA_VERSION,
) -> None:
    """Bring a base of `version` to `target`, within the caller's transaction."""
    for step in range(version, target):
        steps[step](connection)
