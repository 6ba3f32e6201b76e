from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from lagotto.errors import ConfigError, EmbeddingError, ModelMismatchError
from lagotto.indexes.base import LogPosition
from lagotto.indexes.vectors.index import VectorMatrix
from lagotto.indexes.vectors.sketch import Tuning
from tests.indexes.vectors.made import keys_of, normalised, unit_vectors

SKETCHED = Tuning(exact_rows=100, candidates=40, per_hit=4, uncompacted_rows=10)


def saved(index: VectorMatrix, folder: Path) -> VectorMatrix:
    """The index with all rows in its base."""
    index.save(folder, LogPosition(1, 0))
    return index


def filled(count: int, *, dimension: int = 32, tuning: Tuning | None = None) -> VectorMatrix:
    index = VectorMatrix("m", dimension=dimension, tuning=tuning)
    index.add(np.arange(count), unit_vectors(0, count=count, dimension=dimension))
    return index


def test_an_empty_index_finds_nothing() -> None:
    index = VectorMatrix("m", dimension=8)
    query = unit_vectors(0, count=1, dimension=8)[0]
    assert len(index.snapshot) == len(index.snapshot.keys) == 0
    assert len(index.snapshot.search(query, 5)) == 0
    assert len(index.snapshot.search(query, 5, allowed=keys_of(1, 2))) == 0
    assert index.snapshot.scores(query, keys_of(1)).tolist() == [0]
    assert not index.wants_compaction


def test_a_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    index = filled(200, tuning=SKETCHED)
    index.save(tmp_path, LogPosition(1, 0))
    snapshot = index.snapshot
    query = unit_vectors(5, count=1, dimension=32)[0]
    before = snapshot.search(query, 10)
    index.add(keys_of(1000), query[None])
    index.remove(before.keys)
    index.save(tmp_path, LogPosition(2, 0))
    after = snapshot.search(query, 10)
    assert after.keys.tolist() == before.keys.tolist()
    assert after.scores.tolist() == before.scores.tolist()
    assert len(snapshot) == 200


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_a_filter_that_goes_against_the_query_costs_no_result(tmp_path: Path, share: float) -> None:
    """The rows that are allowed are the ones farthest away from the query."""
    index = saved(filled(3000, tuning=SKETCHED), tmp_path)
    query = unit_vectors(5, count=1, dimension=32)[0]
    farthest = index.snapshot.search(query, 3000).keys[::-1][: int(3000 * share)]
    hits = index.snapshot.search(query, 20, allowed=np.sort(farthest))
    assert len(hits) == 20
    assert set(hits.keys) <= set(farthest)


def test_a_sketch_finds_in_base_and_tail_and_respects_removals(tmp_path: Path) -> None:
    index = saved(filled(2000, tuning=SKETCHED), tmp_path)
    new = unit_vectors(1, count=1500, dimension=32)
    index.add(np.arange(2000, 3500), new)
    index.remove(np.arange(0, 3500, 3))
    assert index.snapshot.search(new[0], 1).keys.tolist() == [2000]
    hits = index.snapshot.search(new[0], 50)
    assert len(hits) == 50
    assert not (hits.keys % 3 == 0).any()
    assert (index.snapshot.scores(new[0], hits.keys) == hits.scores).all()


def test_compaction_is_wanted_when_a_quarter_is_new_or_gone(tmp_path: Path) -> None:
    index = saved(filled(1000, tuning=Tuning(uncompacted_rows=10)), tmp_path)
    assert not index.wants_compaction
    index.add(np.arange(1000, 1150), unit_vectors(1, count=150, dimension=32))
    index.remove(np.arange(100))
    assert not index.wants_compaction
    index.remove(keys_of(500))
    assert index.wants_compaction
    before = index.snapshot.keys.tolist()
    assert not saved(index, tmp_path).wants_compaction
    assert index.snapshot.keys.tolist() == before


def test_a_few_rows_are_not_worth_a_compaction() -> None:
    assert not filled(2000).wants_compaction
    assert filled(2001).wants_compaction


def test_vectors_of_another_dimension_are_refused() -> None:
    index = filled(5)
    with pytest.raises(ModelMismatchError, match="of dimension 32, not of the shape \\(8,\\)"):
        index.add(keys_of(1), unit_vectors(0, count=1, dimension=8))
    with pytest.raises(ModelMismatchError, match="use the model"):
        index.snapshot.search(unit_vectors(0, count=1, dimension=8)[0], 3)
    with pytest.raises(ModelMismatchError, match="use the model"):
        index.snapshot.scores(unit_vectors(0, count=1, dimension=8)[0], keys_of(1))


@pytest.mark.parametrize("factor", [0.5, 0.0, np.nan, np.inf])
def test_vectors_that_are_not_of_length_1_are_refused(factor: float) -> None:
    vectors = unit_vectors(0, count=3, dimension=32)
    vectors[1] *= np.float32(factor)
    with pytest.raises(EmbeddingError, match="not 1; normalise"):
        filled(5).add(np.arange(3), vectors)


def test_vectors_of_another_type_are_refused() -> None:
    wide = unit_vectors(0, count=1, dimension=32).astype(np.float64)
    with pytest.raises(EmbeddingError, match="not float64"):
        filled(5).snapshot.search(wide[0], 3)


def test_asking_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="k is 0"):
        filled(5).snapshot.search(unit_vectors(0, count=1, dimension=32)[0], 0)


def test_searches_see_every_change_whole() -> None:
    """Keys come and go in threes; a search never sees one without the others."""
    index = VectorMatrix("m", dimension=16, tuning=Tuning(exact_rows=50, candidates=10_000))
    query = unit_vectors(0, count=1, dimension=16)[0]
    done = Event()

    def write() -> None:
        for group in range(300):
            keys = 3 * group + np.arange(3)
            index.add(keys, unit_vectors(group, count=3, dimension=16))
            if group % 3 == 2:
                index.remove(keys - 3)
        done.set()

    def read() -> int:
        looks = 0
        while not done.is_set() or not looks:
            groups = np.bincount(index.snapshot.search(query, 2000).keys // 3)
            assert set(groups.tolist()) <= {0, 3}
            looks += 1
        return looks

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        pool.submit(write).result()
        assert all(reader.result() for reader in readers)
    assert len(index.snapshot) == 600


def test_a_vector_and_its_opposite_are_as_far_apart_as_can_be() -> None:
    vector = normalised(np.ones((1, 32), dtype=np.float32))
    index = VectorMatrix("m", dimension=32)
    index.add(keys_of(1, 2), np.concatenate([vector, -vector]))
    assert index.snapshot.search(vector[0], 2).scores.tolist() == pytest.approx([1, -1])
