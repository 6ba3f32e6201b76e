"""Inverted lists from features (trigram codes, hashes) to the ids of terms that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]
Number = TypeVar("Number", bound=np.integer[Any])


def distinct(values: NDArray[Number]) -> NDArray[Number]:
    """The values, each once, ascending.

    np.unique would import numpy.ma, which takes a short command longer than the search.
    """
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


@dataclass(frozen=True, slots=True)
class FeaturePostings:
    """`ids[starts[i]:starts[i + 1]]` are the terms with the feature `keys[i]`."""

    keys: Keys
    starts: NDArray[np.int64]
    ids: Ids

    @classmethod
    def of_pairs(cls, features: Keys, ids: Ids) -> FeaturePostings:
        """Build from (feature, term) pairs; the pairs of one term must be adjacent."""
        order = np.argsort(features, kind="stable")
        features, ids = features[order], ids[order]
        other_feature = np.diff(features, prepend=~features[:1]) != 0
        new = other_feature | (np.diff(ids, prepend=-1) != 0)
        starts = np.flatnonzero(other_feature[new])
        return cls(features[other_feature], np.append(starts, np.count_nonzero(new)), ids[new])

    def having(self, features: Keys) -> Ids:
        """The terms with any of the features, once per feature."""
        positions = np.searchsorted(self.keys, features)
        known = [
            index
            for index, feature in zip(positions, features, strict=True)
            if index < len(self.keys) and self.keys[index] == feature
        ]
        lists = [self.ids[self.starts[index] : self.starts[index + 1]] for index in known]
        return np.concatenate(lists) if lists else np.empty(0, dtype=np.int32)
