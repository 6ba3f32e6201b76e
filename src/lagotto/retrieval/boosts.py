"""The user's own boosts: factors of the fused scores, by what is known of documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import prod

import numpy as np

from lagotto.documents import Chunk, Document, in_utc
from lagotto.filters import field_ref, matches, value_of
from lagotto.prefs import Boost
from lagotto.retrieval.fusion import Fused

_DATE_IN_NAME = re.compile(
    r"(?<!\d)((?:19|20)\d\d)([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)"
)
_DAY = timedelta(days=1)


def boosted(
    fused: Fused, boosts: Sequence[Boost], rows: Iterable[tuple[int, Document, Chunk | None]]
) -> Fused:
    """The fused scores times the factors of all boosts, which `rows` have the documents for.

    The order is that of the products. If the best one is above 1, all are divided by it, so that
    scores stay in [0, 1]; otherwise what no boost speaks for keeps its score.
    """
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    factors = {boost.name: np.ones(len(fused.scores)) for boost in boosts}
    columns = [(boost, factors[boost.name]) for boost in boosts]
    for row, document, chunk in rows:
        for boost, column in columns:
            column[row] *= factor_of(boost, document, chunk, today=today)
    products = prod(factors.values(), start=fused.scores)
    scale = max(1.0, float(products.max(initial=0.0)))
    return replace(
        fused, scores=products / scale, unboosted=fused.scores, boosts=factors, boost_scale=scale
    )


def factor_of(boost: Boost, document: Document, chunk: Chunk | None, *, today: datetime) -> float:
    """What a boost multiplies the score of a document's passage by."""
    if not matches(boost.where, document, chunk):
        return 1.0
    if boost.recency is None:
        return boost.factor
    own = boost.recency == "date"
    value = None if own else value_of(field_ref(boost.recency), document, chunk)
    date = document_date(document) if own else _moment(value)
    if date is None:
        return 1.0
    age = max(0.0, ((boost.now or today) - date) / _DAY)
    share: float = 0.5 ** (age / boost.half_life)
    return float(1 + (boost.factor - 1) * share)


def document_date(document: Document) -> datetime | None:
    """A document's date: by what it says of itself, by its file name, or when it was changed."""
    own = _moment(document.metadata.get("date")) or document.created_at
    if own is not None:
        return own
    name = document.source.replace("\\", "/").rpartition("/")[2]
    in_name = _DATE_IN_NAME.search(name)
    dated = in_name and _moment("-".join(in_name.group(1, 3, 4)))
    return dated or document.updated_at


def _moment(value: object) -> datetime | None:
    """A date or time as metadata has it; None for anything else."""
    try:
        return in_utc(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except ValueError:
        return None
