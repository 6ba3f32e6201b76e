"""Text and vector index on a Qdrant server or cluster, for bases that outgrow one machine.

`client.py` reads the address, asks the server and translates its errors. `driver.py` has the calls
of a RemoteIndex, `text.py` the text index.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lagotto.errors import ConfigError
from lagotto.indexes.base import text_rules
from lagotto.indexes.registry import IndexSite

if TYPE_CHECKING:
    from lagotto.indexes.qdrant.text import QdrantTextIndex
    from lagotto.indexes.remote import RemoteVectorIndex

LAYOUT = "2"  # of points and state; other layouts have other names


def open_qdrant_text(site: IndexSite) -> QdrantTextIndex:
    """The text index of a base on a Qdrant server; asks it nothing yet."""
    _need_client()
    from lagotto.indexes.qdrant.text import QdrantTextIndex

    return QdrantTextIndex(site, site.name("text", f"{text_rules()}/qdrant-{LAYOUT}"))


def open_qdrant_vectors(site: IndexSite, *, model_id: str, dimension: int) -> RemoteVectorIndex:
    """The vector index of a base on a Qdrant server; asks it nothing yet."""
    _need_client()
    from lagotto.indexes.qdrant.driver import QdrantDriver
    from lagotto.indexes.remote import RemoteVectorIndex

    name = site.name("vectors", f"{model_id}/{dimension}/qdrant-{LAYOUT}")
    driver = QdrantDriver(site, name, dimension=dimension)
    return RemoteVectorIndex(driver, model_id=model_id, dimension=dimension, timeout=site.timeout)


def _need_client() -> None:
    if find_spec("qdrant_client") is None:
        raise ConfigError(
            "an index on Qdrant needs the package qdrant-client; "
            "install it with: pip install 'lagotto[qdrant]'"
        )
