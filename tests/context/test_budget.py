"""Budgets, where every character is a token."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto.context import token_counter
from lagotto.context.budget import fit, most_telling
from lagotto.context.passages import ROLES, PackPassage, PackRole, Piece
from lagotto.documents import Chunk, ChunkSection, Span
from lagotto.embedders.onnx import MINILM
from lagotto.errors import ConfigError, UnknownNameError

from .made import hit


def piece(name: str, role: PackRole, text: str) -> Piece:
    chunk = Chunk(
        id=name, collection="c", document_id=name, chunker_id="x", ordinal=0,
        start=0, end=len(text), text=text, token_count=1,
    )  # fmt: skip
    return Piece(chunk, role, hit(chunk))


def texts(pieces: Sequence[Piece]) -> list[str]:
    return [item.chunk.text for item in pieces]


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(texts(pieces))


def fitted(
    pieces: Sequence[Piece],
    budget: int,
    *,
    minimum: int = 3,
    count: Callable[[str], int] = len,
) -> list[Piece]:
    sizes = accumulate(count(item.chunk.text) for item in sorted(pieces, key=strength))
    return fit(
        pieces,
        fits=lambda chosen: count(joined(chosen)) <= budget,
        take=lambda _: next(sizes) <= budget,
        minimum=minimum,
    )


def strength(item: Piece) -> int:
    return item.weakness


def names(pieces: Sequence[Piece]) -> str:
    return " ".join(item.chunk.id for item in pieces)


PIECES = [
    piece("p1", "primary", "x" * 10),
    piece("q1", "parent", "x" * 10),
    piece("p2", "primary", "x" * 10),
    piece("p3", "primary", "x" * 10),
    piece("s1", "sibling", "x" * 10),
    piece("c1", "cross_page", "x" * 10),
    piece("c2", "cross_page", "x" * 10),
]


def test_what_is_weakest_goes_first() -> None:
    kept = [names(fitted(PIECES, budget, minimum=1)) for budget in range(70, 0, -10)]
    assert kept == [
        "p1 q1 p2 p3 s1 c1 c2",
        "p1 q1 p2 p3 s1 c1",
        "p1 q1 p2 p3 s1",
        "p1 q1 p2 p3",
        "p1 p2 p3",
        "p1 p2",
        "p1",
    ]


def test_the_minimum_is_shortened_from_the_last_one() -> None:
    text = "One is here. Two is here. Three is here."
    primaries = [piece(name, "primary", text) for name in ("a", "b", "c")]

    def kept(budget: int) -> list[tuple[str, str, bool]]:
        found = fitted(primaries, budget, minimum=3)
        return [(item.chunk.id, item.chunk.text, item.truncated) for item in found]

    one, two = "One is here.", "One is here. Two is here."
    assert kept(119) == [("a", text, False), ("b", text, False), ("c", two, True)]
    assert kept(100) == [("a", text, False), ("b", text, False), ("c", one, True)]
    assert kept(90) == [("a", text, False), ("b", two, True), ("c", one, True)]
    assert kept(36) == [("a", one, True), ("b", one, True), ("c", one, True)]
    assert kept(35) == [("a", one, True), ("b", one, True)]
    assert kept(12) == [("a", one, True)]
    assert kept(11) == [("a", "One is", True)]
    assert kept(2) == [("a", "On", True)]
    assert kept(0) == []


def test_a_text_with_white_space_of_any_kind_is_shortened() -> None:
    [kept] = fitted([piece("a", "primary", "It was plan A\u3000. Because it is.")], 20, minimum=1)
    assert kept.chunk.text == "It was plan A\u3000."


def test_a_whole_primary_that_fits_is_not_shortened() -> None:
    pieces = [piece("a", "primary", "Short."), piece("b", "primary", "x" * 50)]
    kept = fitted(pieces, 6, minimum=2)
    assert [(item.chunk.text, item.truncated) for item in kept] == [("Short.", False)]


def test_text_without_words_is_cut_between_characters() -> None:
    (kept,) = fitted([piece("a", "primary", "松露生长在橡树根部")], 4)
    assert kept.chunk.text == "松露生长"
    assert kept.chunk.end == 4


def test_lines_of_a_table_count_as_sentences() -> None:
    (kept,) = fitted([piece("a", "primary", "a | 1\nb | 2\nc | 3")], 13)
    assert kept.chunk.text == "a | 1\nb | 2"


TOLD = "  One dog. Two cats. Three owls. Four. "


@pytest.mark.parametrize(
    ("words", "budget", "kept"),
    [
        (["cats"], 9, "Two cats."),
        (["cats"], 8, None),
        (["cats", "owls"], 21, "Two cats. Three owls."),
        (["cats", "dog"], 21, "One dog. Two cats."),
        (["cats", "cats", "dog"], 21, "One dog. Two cats."),
        (["Two"], 9, "Two cats."),
        (["owls"], 99, "One dog. Two cats. Three owls. Four."),
        (["owls", "dog"], 11, "One dog."),  # the first of equals
        ([], 99, None),
    ],
)
def test_the_sentences_with_the_most_words(words: list[str], budget: int, kept: str | None) -> None:
    spans = [Span(at, at + len(word)) for word in words for at in [TOLD.index(word)]]
    found = most_telling(
        piece("a", "primary", TOLD), spans, lambda part: len(part.chunk.text) <= budget
    )
    assert (found and found.chunk.text) == kept
    if found:
        assert found.chunk.text == TOLD[found.chunk.start : found.chunk.end]
        assert found.cut_before == (found.chunk.start > 2)
        assert found.cut_after == (found.chunk.end < len(TOLD) - 1)


def test_a_word_at_the_start_keeps_the_first_sentence() -> None:
    text = piece("a", "primary", "Dogs run. Cats sit.")
    found = most_telling(text, [Span(0, 4)], lambda part: len(part.chunk.text) <= 9)
    assert found is not None
    assert found.chunk.text == "Dogs run."
    assert most_telling(text, [Span(0, 4)], lambda part: len(part.chunk.text) <= 8) is None


def test_a_heading_by_itself_is_no_sentence() -> None:
    text = "# Pumps\n\n## Start\n-----\nPress it. Wait."
    headed = piece("b", "primary", text)
    sections = (ChunkSection(0, ("Pumps",)), ChunkSection(9, ("Pumps", "Start")))
    chunk = headed.chunk.model_copy(update={"sections": sections})
    pieces = [piece("a", "primary", "One."), replace(headed, chunk=chunk)]
    shortest = text.removesuffix(" Wait.")
    assert texts(fitted(pieces, 4 + len(shortest), minimum=2)) == ["One.", shortest]
    assert texts(fitted(pieces, 3 + len(shortest), minimum=2)) == ["One."]


def test_what_was_cut_off_is_no_longer_cited() -> None:
    text = "First.\nSecond.\nThird."
    ranges = {"row_range": (1, 3), "item_range": (1, 2), "lines": (5, 7)}
    sections = (ChunkSection(0, ("A",)), ChunkSection(7, ("B",)), ChunkSection(15, ("C",)))
    whole = piece("a", "primary", text)
    chunk = whole.chunk.model_copy(update={**ranges, "sections": sections})
    cited = replace(whole, chunk=chunk, hit=hit(chunk, heading_path=("C",)))
    (kept,) = fitted([cited], len(text) - 1, minimum=1)
    assert kept.chunk.text == "First.\nSecond."
    location = PackPassage((kept,)).location
    assert (location.row_range, location.item_range, location.lines) == (None, None, (5, 6))
    assert location.heading_path == ()
    (kept,) = fitted([cited], 6, minimum=1)
    assert PackPassage((kept,)).location.heading_path == ("A",)


def test_a_table_that_was_cut_claims_no_rows() -> None:
    whole = piece("a", "primary", "a | 1\nb | 2\nc | 3")
    for name in ("row_range", "item_range"):
        chunk = whole.chunk.model_copy(update={name: (1, 3)})
        (kept,) = fitted([replace(whole, chunk=chunk, hit=hit(chunk))], 13, minimum=1)
        assert kept.truncated
        location = PackPassage((kept,)).location
        assert (location.row_range, location.item_range) == (None, None)


def test_nothing_stays_nothing() -> None:
    assert fitted([], 10) == []
    assert fitted([], 1, count=lambda text: len(text) + 2) == []


PACKS = st.lists(
    st.tuples(st.sampled_from(ROLES), st.integers(1, 30)), min_size=1, max_size=12
).map(
    lambda rows: [
        piece(str(number), role, "ab. " * size) for number, (role, size) in enumerate(rows)
    ]
)


@given(PACKS, st.integers(0, 600), st.integers(1, 5))
def test_what_stays_fits_and_the_next_one_would_not(
    pieces: list[Piece], budget: int, minimum: int
) -> None:
    kept = fitted(pieces, budget, minimum=minimum)
    assert len(joined(kept)) <= budget
    assert [item.chunk.id for item in kept] == sorted(names(kept).split(), key=int)
    order = sorted(pieces, key=lambda item: item.weakness)
    least = [item for item in pieces if item.role == "primary"][:minimum]
    if len(joined(least)) <= budget:
        assert kept == sorted(order[: len(kept)], key=lambda item: int(item.chunk.id))
        assert len(kept) == len(order) or len(joined(order[: len(kept) + 1])) > budget
        assert all(item in kept for item in least)
    else:
        assert names(kept) == names(least[: len(kept)])
        assert kept != least


def test_the_whole_text_is_counted_a_few_times() -> None:
    counted: list[str] = []

    def words(text: str) -> int:
        counted.append(text)
        return len(text.split())

    pieces = [piece(f"p{number}", "primary", f"word{number} " * 20) for number in range(10, 60)]
    kept = fitted(pieces, 600, minimum=3, count=cache(words))
    assert len(kept) == 30
    assert sum(map(len, counted)) < 3.5 * len(joined(kept))


def test_what_joining_saves_makes_room_for_the_last_piece() -> None:
    pieces = [piece(f"p{number}", "primary", "abcd") for number in range(10)]
    kept = fitted(pieces, 44, minimum=1, count=lambda text: len(text) + 4)
    assert len(kept) == 10


@given(PACKS, st.integers(0, 600))
def test_a_text_may_have_fewer_tokens_than_its_blocks(pieces: list[Piece], budget: int) -> None:
    def count(text: str) -> int:
        return len(text) + 2  # a mark of the beginning and one of the end

    kept = fitted(pieces, budget, minimum=1, count=count)
    order = sorted(pieces, key=lambda item: item.weakness)
    if len(kept) > 1 and len(kept) < len(order):
        assert count(joined(kept)) <= budget < count(joined(order[: len(kept) + 1]))


def test_a_tokenizer_or_a_function_counts() -> None:
    assert token_counter(MINILM().tokenizer)("the cat sat") == 3
    assert token_counter(len)("four") == 4


@pytest.mark.parametrize("name", ["tiktoken", "tiktoken:", "words", "gpt:x"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="write tiktoken:ENCODING"):
        token_counter(name)


def test_tiktoken_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match="pip install tiktoken"):
        token_counter("tiktoken:cl100k_base")


class WordEncoding:
    """Stands in for an encoding of tiktoken, whose files are downloaded when first used."""

    def encode(self, text: str, *, disallowed_special: tuple[str, ...]) -> list[str]:
        assert disallowed_special == ()
        text.encode()
        return text.split()


def get_encoding(name: str) -> WordEncoding:
    if name == "remote":
        raise ConnectionError("no network")
    if name != "words":
        raise ValueError(f"Unknown encoding {name}")
    return WordEncoding()


def test_tiktoken_counts_by_the_name_of_an_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tiktoken")
    monkeypatch.setattr(module, "get_encoding", get_encoding, raising=False)
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    assert token_counter("tiktoken:words")("<|endoftext|> and \ud800") == 3
    with pytest.raises(ConfigError, match="has no encoding 'other' at hand: Unknown"):
        token_counter("tiktoken:other")
    with pytest.raises(ConfigError, match="has no encoding 'remote' at hand: no network"):
        token_counter("tiktoken:remote")
