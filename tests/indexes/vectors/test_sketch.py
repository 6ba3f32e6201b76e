from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.indexes.base import top_k
from lagotto.indexes.vectors.sketch import POOL_PER_CANDIDATE, Frame, Sketch, closest, dots
from tests.indexes.vectors.made import keys_of, normalised, unit_vectors


@pytest.mark.parametrize("dimension", [1, 3, 64, 100, 384])
def test_bits_are_whole_words_whatever_the_dimension(dimension: int) -> None:
    rows = unit_vectors(0, count=70, dimension=dimension)
    sketch = Sketch.of(rows)
    assert sketch.codes.shape == (max(4, -(-dimension // 64)), 70)
    assert sketch.codes.dtype == np.uint64
    assert np.allclose(np.linalg.norm(sketch.frame.directions, axis=1), 1, atol=1e-5)


def test_directions_are_orthogonal_and_always_the_same() -> None:
    rows = unit_vectors(0, count=10, dimension=128)
    frame, again = Frame.fitted(rows), Frame.fitted(rows[:5])
    for turn in (frame.directions[:128], frame.directions[128:]):
        assert np.allclose(turn @ turn.T, np.eye(128), atol=1e-5)
    assert (frame.directions == again.directions).all()


def test_codes_do_not_depend_on_the_rows_beside() -> None:
    rows = unit_vectors(1, count=40, dimension=96)
    frame = Frame.fitted(rows)
    one_by_one = np.concatenate([frame.encode(rows[i : i + 1]) for i in range(40)], axis=1)
    differing = np.bitwise_count(frame.encode(rows) ^ one_by_one).sum()
    assert differing <= 2  # a number next to zero may be rounded to either side


def test_the_sample_for_the_mean_is_fair() -> None:
    rows = unit_vectors(2, count=70_000, dimension=4)
    assert np.allclose(Frame.fitted(rows).mean, rows.mean(axis=0), atol=0.02)


@given(
    st.lists(st.integers(0, 400), max_size=60).map(lambda xs: np.array(xs, dtype=np.uint16)),
    st.integers(1, 80),
)
def test_closest_has_the_least_distances_and_all_ties(distances: np.ndarray, count: int) -> None:
    chosen = set(closest(distances, count=count).tolist())
    kth = np.sort(distances)[min(count, len(distances)) - 1] if len(distances) else 0
    assert chosen == {place for place, value in enumerate(distances) if value <= kth}


def test_the_nearest_rows_are_proposed() -> None:
    rows = unit_vectors(3, count=3000, dimension=64)
    query = normalised(rows[:1] + 0.3 * rows[1:2])[0]
    proposed = Sketch.of(rows).nearest(query, count=100)
    best = np.argmax(rows @ query)
    assert 100 <= len(proposed) < POOL_PER_CANDIDATE * 100
    assert best in proposed


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_only_rows_to_choose_from_are_proposed(share: float) -> None:
    rows = unit_vectors(4, count=3000, dimension=64)
    among = np.flatnonzero(np.random.default_rng(0).random(3000) < share)
    proposed = Sketch.of(rows).nearest(rows[0], count=50, among=among)
    alone = Sketch.of(rows)
    restricted = Sketch(alone.frame, np.ascontiguousarray(alone.codes[:, among]))
    assert (proposed == among[restricted.nearest(rows[0], count=50)]).all()


def test_equal_codes_are_all_proposed() -> None:
    rows = np.repeat(unit_vectors(5, count=1, dimension=64), 500, axis=0)
    assert len(Sketch.of(rows).nearest(rows[0], count=10)) == 500


@pytest.mark.slow
def test_recall_survives_an_offset_and_unequal_dimensions() -> None:
    random = np.random.default_rng(6)
    spectrum = np.arange(1, 129, dtype=np.float32) ** -0.7
    raw = random.standard_normal((20_100, 128)).astype(np.float32) * spectrum + np.float32(0.2)
    rows, queries = normalised(raw[:20_000]), normalised(raw[20_000:])
    sketch = Sketch.of(rows)
    shares = []
    for query in queries:
        best = np.argsort(-(rows @ query))[:10]
        shares.append(np.isin(best, sketch.nearest(query, count=1000)).mean())
    assert np.mean(shares) > 0.99


def test_a_score_depends_on_its_row_only() -> None:
    rows = unit_vectors(0, count=500, dimension=100)
    query = unit_vectors(1, count=1, dimension=100)[0]
    alone = np.array([np.vecdot(row, query) for row in rows])
    shifted = np.empty(rows.size + 1, dtype=np.float32)[1:].reshape(rows.shape)
    shifted[:] = rows
    assert (dots(rows, query) == alone).all()
    assert (dots(shifted, query) == alone).all()


@pytest.mark.parametrize("step", [2, 7])
def test_gathering_gives_the_same_scores_as_scanning(step: int) -> None:
    rows = unit_vectors(2, count=40_000, dimension=8)
    some = np.arange(0, 40_000, step)[::-1]
    assert (dots(rows, rows[0], some) == dots(rows, rows[0])[some]).all()


def test_ties_are_broken_by_key_also_at_the_end_of_the_list() -> None:
    scores = np.array([0.5, 0.9, 0.5, 0.5, 0.1], dtype=np.float32)
    hits = top_k(keys_of(9, 8, 7, 3, 1), scores, 3)
    assert hits.keys.tolist() == [8, 3, 7]
