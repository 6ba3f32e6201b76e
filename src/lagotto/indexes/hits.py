"""What one leg found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Hits:
    """Chunk keys with their scores, best first."""

    keys: NDArray[np.int64]
    scores: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float32))
