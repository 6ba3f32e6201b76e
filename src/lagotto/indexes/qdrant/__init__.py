"""Text and vector index on a Qdrant server or cluster, for bases that outgrow one machine.

`address.py` reads the address, `client.py` asks the server and translates its errors.
`collections.py` holds what an index is and how far it has come, `following.py` applies the change
log to `points.py`. `filters.py` translates filters and conditions on words. `vectors.py` and
`text.py` are the indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.indexes.qdrant.text import QdrantTextIndex
    from lagotto.indexes.qdrant.vectors import QdrantVectorIndex
    from lagotto.indexes.registry import IndexSite


def open_qdrant_text(site: IndexSite) -> QdrantTextIndex:
    """The text index of a base on a Qdrant server; asks it nothing yet."""
    _need_client()
    from lagotto.indexes.qdrant.text import QdrantTextIndex

    return QdrantTextIndex(site)


def open_qdrant_vectors(site: IndexSite, *, model_id: str, dimension: int) -> QdrantVectorIndex:
    """The vector index of a base on a Qdrant server; asks it nothing yet."""
    _need_client()
    from lagotto.indexes.qdrant.vectors import QdrantVectorIndex

    return QdrantVectorIndex(site, model_id=model_id, dimension=dimension)


def _need_client() -> None:
    try:
        import qdrant_client  # noqa: F401
    except ImportError as exc:
        raise ConfigError(
            "an index on Qdrant needs the package qdrant-client; "
            "install it with: pip install 'lagotto[qdrant]'"
        ) from exc
