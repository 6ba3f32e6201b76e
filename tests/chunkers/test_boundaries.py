from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.chunkers.boundaries import QUOTATION_BATCH, Boundaries, sentence_starts

LENGTH = 60_000


def pieces(text: str) -> list[str]:
    return [piece for _, piece in Boundaries(text)._batches()]


@pytest.mark.parametrize("mark", [*"“”„«»‹›「」‘’(（'`", "``", "' ", "'“\"", "(!", "(a) "])
def test_sentences_among_many_marks_are_sought_in_short_pieces(mark: str) -> None:
    """The time that sentencex takes grows with the square of their number."""
    text = mark * (LENGTH // len(mark))
    assert max(map(len, pieces(text))) <= QUOTATION_BATCH
    assert "".join(pieces(text)).strip() == text.strip()


def test_pieces_end_behind_sentences() -> None:
    text = "He said “yes (maybe)”. Then it’s over. " * 2_000
    found = pieces(text)
    assert len(found) > 10
    assert all(piece.rstrip().endswith(".") for piece in found)
    whole = Boundaries(text).of("sentence").tolist()
    assert {text[offset - 2 : offset] for offset in whole if offset} == {". "}


def test_apostrophes_inside_words_are_none() -> None:
    assert len(pieces("It's the dog's nose that doesn't tire. " * 2_000)) == 1


def test_no_sentences_are_sought_in_megabytes_of_line_ends() -> None:
    """A dict for each of them would take gigabytes."""
    text = "One.\n" + "\n" * 2_000_000 + "Two.\n" + "\n" * 2_000_000
    assert " ".join(pieces(text)).split() == ["One.", "Two."]
    assert sum(map(len, pieces(text))) < 20


SPACES = [char for char in map(chr, range(0x3001)) if char.isspace() and char != "\n"]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: f"U+{ord(space):04X}")
def test_any_white_space_may_stand_before_a_full_stop(space: str) -> None:
    """sentencex panics at most of them behind a single letter."""
    assert sentence_starts(f"plan A{space}. Because it is.", "en") == [0, 9]


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n\r\r\n", "\r\n\r\n\r\n"])
def test_offsets_behind_line_ends_of_any_kind_are_exact(gap: str) -> None:
    text = gap.join(["One is here. Two is here.", "Three is here. Four is here."] * 3)
    found = Boundaries(text).of("sentence").tolist()
    starts = {offset for offset in found if text[offset : offset + 1].isalpha()}
    words = ("One", "Two", "Three", "Four")
    assert starts == {at for word in words for at in _occurrences(text, word)}


def _occurrences(text: str, word: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(word, at)]


PIECES = [
    *SPACES,
    *"\n.!?aAé1日。！“”()[]\u200b\u0301😀",
    "\n\n",
    "Dr.",
    "z.B.",
    "II. ",
    "[1]",
    "a@b.c",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["en", "de", "ja", "ru"]))
def test_sentences_of_any_text_start_inside_it_in_order(pieces: list[str], language: str) -> None:
    text = "".join(pieces)
    found = sentence_starts(text, language)
    assert found == sorted(found)
    assert all(0 <= offset < len(text) for offset in found)
