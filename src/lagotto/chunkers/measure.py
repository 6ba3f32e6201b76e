"""How chunkers measure texts: in tokens, but not letter by letter.

A vocabulary that lacks an alphabet spells its words. For an English model, 256 tokens are 170 words
of English and 35 of Russian: chunks of Russian would be shreds, and next to them every English
chunk would look long to BM25, which compares their lengths in words with one mean.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lagotto.tokens import Tokenizer

LETTERS_PER_TOKEN = 4
"""About as many letters as a token has in a language that the vocabulary is made for."""

SYLLABLES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "YI", "ETHIOPIC")
"""Scripts, by their Unicode names, in which a character is a syllable or a word: a token each."""


def measuring_tokenizer(tokenizer: Tokenizer, alphabets: Sequence[str]) -> Tokenizer:
    """The tokenizer that chunkers measure with, for a model that knows `alphabets`; none mean all.

    It differs from `tokenizer` in texts of other alphabets, whose words it counts by their letters.
    """
    return MeasuringTokenizer(tokenizer, alphabets) if alphabets else tokenizer


class MeasuringTokenizer:
    """A Tokenizer that puts up to `LETTERS_PER_TOKEN` letters of a spelled word into one token."""

    def __init__(self, tokenizer: Tokenizer, alphabets: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._known = (*alphabets, *SYLLABLES, "COMBINING")

    @property
    def id(self) -> str:
        """The tokenizer's own id and the rule."""
        return f"{self._tokenizer.id}+{LETTERS_PER_TOKEN}"

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        counts = self._tokenizer.count(texts)
        spelled = [index for index, text in enumerate(texts) if self._spelled(text).any()]
        if spelled:
            starts = self.starts([texts[index] for index in spelled])
            for index, found in zip(spelled, starts, strict=True):
                counts[index] = len(found)
        return counts

    def starts(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each text, the character offsets at which its tokens start."""
        found = self._tokenizer.starts(texts)
        return [
            joined(starts, self._spelled(text)) for text, starts in zip(texts, found, strict=True)
        ]

    def _spelled(self, text: str) -> NDArray[np.bool_]:
        """Which characters are letters of other alphabets; an empty mask if none is."""
        if text.isascii() and "LATIN" in self._known:
            return np.empty(0, np.bool_)
        letters = {ord(char) for char in set(text) if _is_foreign(char, self._known)}
        if not letters:
            return np.empty(0, np.bool_)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        return np.isin(codes, list(letters))


@lru_cache(maxsize=4096)
def _is_foreign(char: str, known: tuple[str, ...]) -> bool:
    """Whether a character is a letter, or a sign on one, of an alphabet that is not known."""
    is_letter = unicodedata.category(char)[0] in "LM"
    return is_letter and not unicodedata.name(char, "").startswith(known)


def joined(starts: NDArray[np.int64], spelled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Token offsets without those inside a group of letters of a spelled word.

    `spelled` marks the letters of the text, or is empty if it has none.
    """
    if not spelled.any() or not len(starts):
        return starts
    offsets = np.arange(len(spelled))
    word_starts = np.maximum.accumulate(np.where(spelled, 0, offsets + 1))[starts]
    groups = (starts - word_starts) // LETTERS_PER_TOKEN
    # what comes before a word is in no group of it: its distance is negative
    same_group = (word_starts[1:] == word_starts[:-1]) & (groups[1:] == groups[:-1])
    first = np.ones(len(starts), np.bool_)
    first[1:] = ~(spelled[starts[1:]] & same_group)
    return starts[first]
