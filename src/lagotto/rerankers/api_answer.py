"""Reading what a `/rerank` service answered, and believing none of it unseen."""

from __future__ import annotations

import json

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from lagotto.errors import RerankError
from lagotto.rerankers.base import Scale

ROUNDING = 1e-3
"""How far beyond its scale a score may lie and still be put down to rounding."""


class _Item(BaseModel):
    index: int = Field(strict=True)
    score: FiniteFloat = Field(validation_alias=AliasChoices("relevance_score", "score"))


_ITEMS = TypeAdapter(list[_Item])


def read_scores(answer: object, *, count: int, scale: Scale, model: str) -> list[float]:
    """The scores in `answer`, in the order of their indexes.

    The list stands under `results`, under `data`, or alone. RerankError unless there is exactly
    one score for each of `count` texts, all finite and on the scale.
    """
    found = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    try:
        items = _ITEMS.validate_python(found)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise RerankError(
            f"the answer of {model} is no list of scores ({place}: {first['msg']}): "
            f"{json.dumps(answer)[:200]}"
        ) from exc
    by_index = {item.index: item.score for item in items}
    if len(items) != count or set(by_index) != set(range(count)):
        raise RerankError(
            f"{model} was sent {count} texts and answered with {len(items)} scores of the indexes "
            f"{sorted(item.index for item in items)[:20]}"
        )
    return [_on_scale(by_index[index], scale, model) for index in range(count)]


def _on_scale(score: float, scale: Scale, model: str) -> float:
    if scale.logit:
        return score
    if not scale.low - ROUNDING <= score <= scale.high + ROUNDING:
        raise RerankError(
            f"{model} gave the score {score:g}, but its scale is declared to go from "
            f"{scale.low:g} to {scale.high:g}; if its numbers are log-odds, set scale to LOGIT"
        )
    return min(scale.high, max(scale.low, score))
