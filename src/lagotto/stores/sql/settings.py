"""The settings of a base, what it was made with, and its size."""

from __future__ import annotations

from collections.abc import Iterable

from lagotto.indexes.base import IndexState
from lagotto.stores.base import BaseConfig, StoreInfo
from lagotto.stores.sql.queries import NamedQuery, ReadConnection

CONFIG = tuple(BaseConfig.model_fields)
"""The settings that say what a base was made with."""

_SETTING = NamedQuery("SETTING")
_SETTINGS = NamedQuery("SETTINGS")
_COLLECTION_SIZES = NamedQuery("COLLECTION_SIZES")
_LANGUAGES = NamedQuery("KNOWN_LANGUAGES")
_OF_UNKNOWN_LANGUAGE = NamedQuery("OF_UNKNOWN_LANGUAGE")
_CHUNKS = NamedQuery("FINDABLE_CHUNKS")


def setting(connection: ReadConnection, name: str) -> str | None:
    """A setting of the base, None if it is not set."""
    value: str | None = _SETTING.scalar(connection, name=name)
    return value


def read_config(connection: ReadConnection) -> BaseConfig:
    """What the chunks and vectors of the base were made with."""
    rows = _SETTINGS.rows(connection, names=CONFIG)
    return BaseConfig.model_validate(dict(map(tuple, rows)))


def read_info(
    connection: ReadConnection,
    *,
    location: str,
    bytes_on_disk: int,
    indexes: Iterable[IndexState],
) -> StoreInfo:
    """How much is in the base, and what it was made with."""
    collections = dict(map(tuple, _COLLECTION_SIZES.rows(connection)))
    config = read_config(connection)
    return StoreInfo(
        location=location,
        documents=sum(collections.values()),
        chunks=_CHUNKS.scalar(connection),
        collections=dict(sorted(collections.items())),
        languages=tuple(sorted(name for name in _LANGUAGES.column(connection) if name)),
        of_unknown_language=_OF_UNKNOWN_LANGUAGE.scalar(connection),
        **config.model_dump(exclude={"generation"}),
        bytes_on_disk=bytes_on_disk,
        indexes=tuple(indexes),
    )
