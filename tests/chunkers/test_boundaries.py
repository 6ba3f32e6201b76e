from __future__ import annotations

import pytest

from lagotto.chunkers.boundaries import QUOTATION_BATCH, Boundaries
from lagotto.documents import Document

LENGTH = 60_000


def pieces(text: str) -> list[str]:
    return [piece for _, piece in Boundaries(Document(text=text))._batches()]


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
    whole = Boundaries(Document(text=text)).of("sentence").tolist()
    assert {text[offset - 2 : offset] for offset in whole if offset} == {". "}


def test_apostrophes_inside_words_are_none() -> None:
    assert len(pieces("It's the dog's nose that doesn't tire. " * 2_000)) == 1


def test_no_sentences_are_sought_in_megabytes_of_line_ends() -> None:
    """A dict for each of them would take gigabytes."""
    text = "One.\n" + "\n" * 2_000_000 + "Two.\n" + "\n" * 2_000_000
    assert " ".join(pieces(text)).split() == ["One.", "Two."]
    assert sum(map(len, pieces(text))) < 20
