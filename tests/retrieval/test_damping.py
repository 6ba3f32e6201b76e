from __future__ import annotations

import numpy as np
import pytest

from lagotto.retrieval.damping import damping, favourite, match_strength
from lagotto.retrieval.fusion import LegScores


def cosines(*scores: float) -> LegScores:
    return LegScores(np.array(scores), np.arange(1, len(scores) + 1))


class TestMatchStrength:
    def test_share_of_half_of_what_three_words_could_score(self) -> None:
        # 2.2 * (5 + 4 + 3) = 26.4; half of it is a full match
        assert match_strength(6.6, [3, 1, 5, 4]) == pytest.approx(0.5)
        assert match_strength(13.2, [3, 1, 5, 4]) == pytest.approx(1.0)
        assert match_strength(20.0, [3, 1, 5, 4]) == 1.0

    def test_fewer_words(self) -> None:
        assert match_strength(2.2, [4.0]) == pytest.approx(0.5)

    def test_nothing_found(self) -> None:
        assert match_strength(0.0, [5.0]) == 0.0

    def test_no_words(self) -> None:
        assert match_strength(0.0, []) == 1.0


class TestFavourite:
    @pytest.mark.parametrize(
        ("first", "expected"), [(0.5, 0.0), (0.6, 0.0), (0.65, 0.5), (0.7, 1.0), (0.9, 1.0)]
    )
    def test_lead_over_the_tenth(self, first: float, expected: float) -> None:
        found = cosines(first, *[0.5] * 9, 0.1)
        assert favourite(found, floor=0.0) == pytest.approx(expected)

    def test_cosines_count_from_the_floor(self) -> None:
        # (0.80 - 0.75) / 0.25 = 0.2, and 0 for what is below the floor
        assert favourite(cosines(0.80, *[0.70] * 9), floor=0.75) == pytest.approx(1.0)
        assert favourite(cosines(0.7875, *[0.70] * 9), floor=0.75) == pytest.approx(0.5)

    def test_too_few_to_compare(self) -> None:
        assert favourite(cosines(0.9, *[0.0] * 8), floor=0.0) == 0.0

    def test_only_its_own_list_counts(self) -> None:
        found = cosines(0.9, *[0.85] * 9, *[0.0] * 5)
        found.ranks[10:] = 0
        assert favourite(found, floor=0.0) == 0.0


def test_damping() -> None:
    # A match of 0.25: half the favourite takes half of what is missing.
    assert damping(3.3, [5, 4, 3], favourite=0.0) == 1.0
    assert damping(3.3, [5, 4, 3], favourite=0.5) == pytest.approx(0.625)
    assert damping(3.3, [5, 4, 3], favourite=1.0) == pytest.approx(0.25)
    assert damping(13.2, [5, 4, 3], favourite=1.0) == pytest.approx(1.0)
