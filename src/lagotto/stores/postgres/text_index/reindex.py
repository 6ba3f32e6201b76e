"""Rebuilding the full-text index from the chunks when the rules for terms have changed."""

from __future__ import annotations

import logging

import numpy as np
from sqlalchemy import Connection, delete, update

from lagotto.indexes.base import text_rules
from lagotto.stores.postgres.schema import STATISTICS
from lagotto.stores.postgres.tables import TEXT_INDEX
from lagotto.stores.postgres.text_index.postings import make_segment
from lagotto.stores.postgres.text_index.write import (
    Counts,
    add_segment,
    conclude,
    take_segment_number,
)
from lagotto.stores.sql.changelog import added_texts, ranges
from lagotto.stores.sql.read import counter
from lagotto.stores.sql.settings import setting
from lagotto.stores.sql.tables import Counter
from lagotto.stores.sql.write_settings import put_setting

log = logging.getLogger(__name__)


def is_current(connection: Connection) -> bool:
    """Whether the index was built with the rules of this version."""
    return setting(connection, "text_rules") == text_rules()


def renew(connection: Connection) -> None:
    """Rebuild the index unless it is current; the caller is the only writer."""
    if is_current(connection):
        return
    log.warning("the rules for terms have changed; rebuilding the full-text index")
    for table in TEXT_INDEX:
        connection.execute(delete(table))
    connection.execute(update(Counter).where(Counter.name.in_(STATISTICS)).values(value=0))
    indexed = Counts()
    for start, stop in ranges(connection, since=0, until=counter(connection, "change")):
        chunks = sorted(added_texts(connection, start, stop), key=lambda chunk: chunk.key)
        segment = make_segment(
            [(chunk.text, chunk.detected) for chunk in chunks],
            [chunk.language for chunk in chunks],
        )
        keys = np.array([chunk.key for chunk in chunks], np.int64)
        indexed += add_segment(connection, take_segment_number(connection), segment, keys)
    put_setting(connection, "text_rules", text_rules())
    conclude(connection, indexed)
