"""In how many steps the text index follows the database, and what a check says meanwhile."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.errors import IndexDamagedError, StoreError, StoreFullError, StoreReadOnlyError
from lagotto.indexes.base import FilterKeys
from lagotto.indexes.folder import IndexFolder, file_errors
from lagotto.indexes.registry import IndexSite
from lagotto.indexes.tantivy import index as text_index
from lagotto.indexes.tantivy import search as searching
from lagotto.indexes.tantivy.index import (
    LONGEST_STEP,
    SHORTEST_STEP,
    TantivyIndex,
    TantivyMeta,
    TantivyWriter,
    step_size,
)
from lagotto.indexes.tantivy.search import TantivySnapshot, tantivy_errors
from lagotto.indexes.text_query import Phrase, Term, TextQuery, Word
from lagotto.testing.indexes import MemoryChangeLog, caught_up, embedded_site
from tests.indexes.tantivy.written import search, write


@pytest.mark.parametrize(
    ("missing", "steps"),
    [
        (1, 1),
        (16_000, 1),
        (16_001, 8),
        (100_000, 8),
        (200_000, 64),
        (500_000, 64),
        (1_000_000, 128),
    ],
)
def test_much_comes_in_a_power_of_eight_of_equal_steps(missing: int, steps: int) -> None:
    assert -(-missing // step_size(missing)) == steps


@given(st.integers(0, 10**8))
def test_a_step_is_neither_long_nor_tiny(missing: int) -> None:
    assert SHORTEST_STEP <= step_size(missing) <= LONGEST_STEP


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreFullError),
        (errno.EROFS, StoreReadOnlyError),
        (errno.EMFILE, StoreError),
        (errno.ENOENT, IndexDamagedError),
    ],
)
def test_the_machine_is_not_the_index(
    tmp_path: Path, number: int, expected: type[Exception]
) -> None:
    with pytest.raises(expected, match="reason"), tantivy_errors(tmp_path):
        raise OSError(number, "reason")
    with pytest.raises(expected, match="reason"), tantivy_errors(tmp_path):
        raise ValueError(f"An IO error occurred: 'reason (os error {number})'")
    with pytest.raises(expected, match="reason"), tantivy_errors(tmp_path):
        raise ValueError(f"IoError(Os {{ code: {number}, message: 'reason' }})")
    of_files = StoreError if expected is IndexDamagedError else expected
    with pytest.raises(StoreError, match="reason") as caught, file_errors(tmp_path):
        raise OSError(number, "reason")
    assert caught.type is of_files


def test_eight_steps_become_one_segment(tmp_path: Path) -> None:
    index = TantivyWriter(tmp_path)
    for step in range(8):
        added = [(step * 50 + number, ["word"]) for number in range(50)]
        write(index, step, step + 1, added=added)
    index.reload_if_changed()
    assert index.snapshot.searcher.num_segments == 1


def test_small_segments_are_merged_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only once there are eight of them."""
    monkeypatch.setattr(text_index, "LEAST_MERGED", 20)
    log, index = MemoryChangeLog(), TantivyIndex(embedded_site(tmp_path))
    writer = index._opened()
    segments = []
    for step in range(9):
        for number in range(20):
            log.add(f"word and number{step}x{number}", language="en")
        index.catch_up(log)
        assert index.position == log.head
        segments.append(writer.snapshot.searcher.num_segments)
    assert segments == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    assert len(search(writer.snapshot, TextQuery(((Term("word"),),)), 999)) == 180
    log.remove(1)  # what was removed has no part of its own
    for number in range(20):
        log.add(f"word and another{number}", language="en")
    index.catch_up(log)
    assert len(search(writer.snapshot, TextQuery(((Term("word"),),)), 999)) == 199


@pytest.mark.parametrize(
    ("sizes", "mergeable"),
    [
        ([], 0),
        ([5, 5_000, 10_000], 3),
        ([16_817, 5], 2),  # 10,000 * 2**0.75
        ([16_819, 5], 1),
        ([25_000, 16_000, 5], 1),
        ([10**6, 10**5], 0),
    ],
)
def test_segments_of_the_layer_of_small_ones(sizes: list[int], mergeable: int) -> None:
    segments = [{"segment_id": "a", "max_doc": size, "deletes": None} for size in sizes]
    meta = TantivyMeta.model_validate({"opstamp": 1, "segments": segments})
    assert meta.mergeable == mergeable


@pytest.mark.parametrize("listed", [0, 1_000], ids=["keys looked up", "chunks listed"])
def test_two_ways_to_find_what_matches(
    listed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "LISTED_PER_KEY", listed)
    index = TantivyWriter(tmp_path)
    added = [(key, ["even" if key % 2 == 0 else "odd", f"w{key}"]) for key in range(1, 61)]
    write(index, 0, 1, added=added)
    write(index, 1, 2, removed=[4, 10])
    among = np.array([2, 3, 4, 10, 40, 99])
    for word, right in (("even", [2, 40]), ("odd", [3]), ("w40", [40]), ("w41", []), ("w4", [])):
        found = index.snapshot.matching(Word((word, "missing")), among)
        assert found.tolist() == right
    asked = [f"w{key}" for key in range(61)] + ["even", "odd"]
    allowed = FilterKeys(np.array([2, 4, 10, 40, 99]))
    assert index.snapshot.present(asked, allowed) == ["w2", "w40", "even"]


async def test_one_search_answers_where_few_chunks_hold_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All hits of each query are seen, so that other chunks are scored without another search."""
    index = TantivyIndex(embedded_site(tmp_path))
    log = MemoryChangeLog()
    for number in range(1, 41):
        log.add("oak " * (number % 3) + f"dog {number}")
    snapshot = index.catch_up(log)
    assert snapshot is not None
    queries = [TextQuery(((Term(word),),)) for word in ("dog", "oak")]
    keys = np.arange(1, 41)
    for allowed in (None, FilterKeys(np.arange(1, 41, 2))):
        expected = [snapshot.state.scores(query, keys) for query in queries]
        for query in queries:
            await snapshot.search(query, k=5, allowed=allowed)
        with monkeypatch.context() as patch:
            patch.delattr(TantivySnapshot, "scores")
            found = allowed.keys if allowed else keys
            for query, scores in zip(queries, expected, strict=True):
                assert (await snapshot.scores(query, found)).tolist() == scores[found - 1].tolist()


def test_alternatives_that_no_chunk_holds_change_nothing(tmp_path: Path) -> None:
    index = TantivyWriter(tmp_path)
    write(index, 0, 1, added=[(1, ["oak", "dog"]), (2, ["oak"]), (3, ["dog", "fir"])])
    oak, nothing = Term("oak", 0.5), Term("missing", 2.0)
    alone = search(index.snapshot, TextQuery(((oak,),)), 9)
    assert alone.keys.tolist() == [2, 1]
    for word in ((oak, nothing), (nothing, oak), (nothing, oak, nothing)):
        query = TextQuery((word, (), (nothing, Term("none"))))
        assert search(index.snapshot, query, 9).scores.tolist() == alone.scores.tolist()
        assert index.snapshot.scores(query, alone.keys).tolist() == alone.scores.tolist()


async def test_a_rare_phrase_is_found_without_looking_for_the_keys_of_a_filter(
    tmp_path: Path,
) -> None:
    """No more chunks hold it than the rarest of its words, in each of its variants."""
    index, log = TantivyIndex(embedded_site(tmp_path)), MemoryChangeLog()
    for number in range(1, 101):
        log.add(f"err {number}" if number % 30 else "err 4012 seen twice")
    snapshot = caught_up(index, log)
    allowed = FilterKeys(np.array([60, 61, 62, 63, 90]))
    phrase = Phrase((("err", "4012"), ("seen", "twice"), ("err", "none")))
    words = TextQuery(((Term("err"),), (Term("4012"),)), phrase)
    found = await snapshot.search(words, k=9, allowed=None)
    assert found.keys.tolist() == [30, 60, 90]
    found = await snapshot.search(words, k=9, allowed=allowed)
    assert found.keys.tolist() == [60, 90]
    assert not allowed.compiled
    everywhere = TextQuery(((Term("err"),),), Phrase((("err",),)))
    assert len(await snapshot.search(everywhere, k=99, allowed=allowed)) == 5


def test_a_counted_term_gives_the_mean_length(tmp_path: Path) -> None:
    """So that the first search need not walk through all terms to find one."""
    index = TantivyWriter(tmp_path)
    write(index, 0, 1, added=[(1, ["dog"]), (2, ["dog", "oak", "elm"])])
    snapshot = index.snapshot
    assert snapshot.cache.term is None
    assert snapshot.document_frequency(Word(("yew", "oak"))) == 1
    assert snapshot.cache.term == "oak"
    assert snapshot.mean_length == 2


async def test_terms_are_looked_up_once_for_a_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST_CACHED", 3)
    index = TantivyIndex(embedded_site(tmp_path))
    log = MemoryChangeLog()
    for text in ("dog oak", "dog elm", "ash"):
        log.add(text)
    snapshot = caught_up(index, log)
    asked: list[list[str]] = []
    present = TantivySnapshot.present

    def counted(self: TantivySnapshot, terms: list[str], allowed: FilterKeys) -> list[str]:
        asked.append(terms)
        return present(self, terms, allowed)

    monkeypatch.setattr(TantivySnapshot, "present", counted)
    allowed = FilterKeys(np.array([1, 3]))
    for terms, found, new in (
        (["elm", "oak"], ["oak"], [["elm", "oak"]]),
        (["oak", "elm", "dog"], ["oak", "dog"], [["dog"]]),
        (["ash", "oak", "yew"], ["ash", "oak"], [["ash", "yew"]]),  # and the rest is forgotten
        (["ash", "oak", "yew"], ["ash", "oak"], []),
        (["dog"], ["dog"], [["dog"]]),
    ):
        asked.clear()
        assert await snapshot.present(terms, allowed, most=9) == found
        assert asked == new
    assert await snapshot.present(["elm"], FilterKeys(np.array([2])), most=9) == ["elm"]


@pytest.mark.parametrize(("removed", "rebuilt"), [(4, False), (5, True)])
def test_an_index_with_more_than_a_fifth_removed_is_rebuilt(
    tmp_path: Path, removed: int, rebuilt: bool
) -> None:
    log, index = MemoryChangeLog(), TantivyIndex(embedded_site(tmp_path))
    for number in range(20):
        log.add(f"word {number}", language="en")
    index.catch_up(log)
    for key in range(1, removed + 1):
        log.remove(key)
    index.catch_up(log)
    assert ("are removed" in index.check(log).what) is rebuilt
    index.compact(log)
    assert index._opened().snapshot.dead == (0 if rebuilt else removed)


@pytest.fixture
def half_made(tmp_path: Path) -> TantivyIndex:
    """An index whose folder is there, and not yet its files."""
    indexes = IndexFolder.beside(tmp_path / "kb.db", base_id="a" * 32)
    indexes.claim()
    index = TantivyIndex(IndexSite("a" * 32, timeout=0.2, indexes=indexes))
    index.folder.mkdir()
    return index


def test_a_half_made_index_is_checked_when_its_writer_has_finished(
    half_made: TantivyIndex,
) -> None:
    half_made._timeout = 60
    levels = list[str]()
    checking = threading.Thread(
        target=lambda: levels.append(half_made.check(MemoryChangeLog()).level)
    )
    with half_made._indexes.lock(timeout=1):
        checking.start()
        checking.join(0.3)
        assert levels == []
        TantivyWriter(half_made.folder)
    checking.join()
    assert levels == ["ok"]


def test_a_half_made_index_without_a_writer_is_damaged(half_made: TantivyIndex) -> None:
    assert half_made.check(MemoryChangeLog()).level == "problem"


def test_an_index_that_is_written_all_the_time_is_not_called_damaged(
    half_made: TantivyIndex,
) -> None:
    with half_made._indexes.lock(timeout=1):
        finding = half_made.check(MemoryChangeLog())
    assert finding.level == "note"
    assert "being written" in finding.what
