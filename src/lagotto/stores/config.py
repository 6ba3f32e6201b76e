"""What a base was made with, and whether what is about to be written was made alike."""

from __future__ import annotations

from lagotto.errors import ModelMismatchError, RebuiltError
from lagotto.indexes.base import Finding
from lagotto.stores.base import BaseConfig, Entry


def rebuilt(place: str) -> RebuiltError:
    """The error for chunks or vectors of a generation that is no longer that of the base."""
    return RebuiltError(f"{place} was rebuilt since it was opened; open it again")


def agreed_config(stored: BaseConfig, entry: Entry, *, place: str) -> BaseConfig:
    """What is stored once an entry is written; the first one decides.

    All vectors must be of one model. Chunks of other chunkers do no harm: a store may be filled
    with documents that were chunked differently, as a copy of an older base is.
    """
    if entry.generation not in (None, stored.generation):
        raise rebuilt(place)
    dimension = entry.vectors.shape[1]
    if stored.model_id is None:
        pooling = "late" if "+late" in entry.model_id else "chunk"
        made = {"model_id": entry.model_id, "dimension": dimension, "pooling": pooling}
        stored = stored.model_copy(update={**made, "embedder": entry.embedder})
    elif (stored.model_id, stored.dimension) != (entry.model_id, dimension):
        raise ModelMismatchError(
            f"{place} holds vectors of {stored.model_id} with dimension {stored.dimension}, not of "
            f"{entry.model_id} with dimension {dimension}; use the embedder of the base, or change "
            "it with `lagotto rebuild --embedder NAME`"
        )
    if stored.chunker_id is None and entry.chunks:
        stored = stored.model_copy(update={"chunker_id": entry.chunks[0].chunker_id})
    return stored


def unfinished_rebuild(size: str) -> Finding:
    """The finding for a rebuild that is running, or was stopped before the switch."""
    return Finding(
        level="note",
        what=f"there is an unfinished rebuild ({size}); searches do not see it",
        advice="unless it is running, run `lagotto rebuild` with the same options to continue it",
    )
