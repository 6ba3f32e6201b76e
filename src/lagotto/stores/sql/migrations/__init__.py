"""Schema changes, in order. A new base is made as it is now; an older one goes step by step.

To change the schema: raise SCHEMA_VERSION, add a module such as `v0002.py` with a
function `upgrade(connection)` that brings version 1 to version 2 and takes whatever dialect it is
given, and keep a base of the old version in the tests. A step describes its tables itself, since
`tables.py` goes on changing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from sqlalchemy import Connection

from lagotto.stores.sql import SCHEMA_VERSION

Upgrade = Callable[[Connection], None]


def migrate(
    connection: Connection,
    version: int,
    *,
    step_to: Callable[[int], Upgrade] | None = None,
    target: int = SCHEMA_VERSION,
) -> None:
    """Bring a base of `version` to `target`, within the caller's transaction."""
    for step in range(version + 1, target + 1):
        (step_to or upgrade_to)(step)(connection)


def upgrade_to(version: int) -> Upgrade:
    """The step that brings a base of the version before to `version`."""
    upgrade: Upgrade = import_module(f"{__name__}.v{version:04}").upgrade
    return upgrade
