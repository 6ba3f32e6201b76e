"""Version 5: a base stores what it was made with; chunk sets have no expiry any more."""

from __future__ import annotations

from sqlalchemy import Connection, text

_MODEL = text("SELECT value FROM setting WHERE name = 'model_id'")
_CHUNKER = text(
    "SELECT chunker_id FROM chunk_set GROUP BY chunker_id "
    "ORDER BY count(*) DESC, chunker_id LIMIT 1"
)
_KNOWN = text("SELECT name FROM setting")
_PUT = text("INSERT INTO setting (name, value) VALUES (:name, :value)")


def upgrade(connection: Connection) -> None:
    """Fill in the settings from what the chunk sets say, most of them if they differ."""
    connection.execute(text("ALTER TABLE chunk_set DROP COLUMN expires_at"))
    model_id = connection.scalar(_MODEL)
    if model_id is None:
        return
    pooling = "late" if "+late" in model_id else "chunk"
    known = set(connection.scalars(_KNOWN))
    for name, value in (("chunker_id", connection.scalar(_CHUNKER)), ("pooling", pooling)):
        if value is not None and name not in known:
            connection.execute(_PUT, {"name": name, "value": value})
