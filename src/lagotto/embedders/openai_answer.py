"""Reading what an `/embeddings` service answered, and believing none of it unseen."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from lagotto.embedders.base import EmbedderInfo
from lagotto.errors import EmbeddingServiceError


class _Item(BaseModel):
    index: int = Field(strict=True)
    embedding: list[FiniteFloat]


class _Answer(BaseModel):
    data: list[_Item]


def read_answer(answer: object, *, count: int, info: EmbedderInfo) -> NDArray[np.float64]:
    """The vectors in `answer`, in the order of their indexes.

    EmbeddingServiceError unless there is exactly one for each of `count` texts, all of finite
    numbers and of the model's dimension.
    """
    try:
        items = _Answer.model_validate(answer).data
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"]))
        shown = json.dumps(answer)[:200]
        raise EmbeddingServiceError(
            f"the answer of {info.model_id} is no list of embeddings ({place}: {first['msg']}): "
            f"{shown}"
        ) from exc
    by_index = {item.index: item.embedding for item in items}
    if len(items) != count or set(by_index) != set(range(count)):
        raise EmbeddingServiceError(
            f"{info.model_id} was sent {count} texts and answered with {len(items)} embeddings of "
            f"the indexes {sorted(item.index for item in items)[:20]}"
        )
    sizes = {len(vector) for vector in by_index.values()}
    if sizes != {info.dimension}:
        raise EmbeddingServiceError(
            f"{info.model_id} should give vectors of {info.dimension} numbers, but gave "
            f"{', '.join(map(str, sorted(sizes)))}; set dimension to what the model has"
        )
    return np.array([by_index[index] for index in range(count)], dtype=np.float64)
