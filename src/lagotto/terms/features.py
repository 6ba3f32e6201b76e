"""Features of words for fuzzy matching, vectorised: trigrams and deletions of a letter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lagotto.terms.postings import Ids, Keys

LONGEST_DELETED = 9
"""Characters; longer words share enough trigrams after an edit to be found by those."""

_BASE = 0x9E3779B97F4A7C15
_BITS = 21  # of a code point; three of them fit into 64


def trigram_pairs(words: Sequence[str]) -> tuple[Keys, Ids]:
    """The code of each trigram of each word, with the index of the word."""
    characters = _code_points("".join(f"  {word} " for word in words))
    padded = _lengths(words) + 3
    owners = np.repeat(np.arange(len(words), dtype=np.int32), padded)
    inside = np.ones(len(characters), dtype=np.bool_)
    ends = np.cumsum(padded)
    inside[ends - 1] = inside[ends - 2] = False  # trigrams that cross into the next word
    first, second, third = characters[:-2], characters[1:-1], characters[2:]
    codes = (first << np.uint64(2 * _BITS)) | (second << np.uint64(_BITS)) | third
    return codes[inside[:-2]], owners[inside]


def deletion_pairs(words: Sequence[str]) -> tuple[Keys, Ids]:
    """The hashes of each short word and of its variants without one letter, with the word's index.

    Words that are one edit apart (insert, delete, replace, swap neighbours) share a hash.
    """
    lengths = _lengths(words)
    hashes = [np.empty(0, dtype=np.uint64)]
    owners = [np.empty(0, dtype=np.int32)]
    for length in range(1, LONGEST_DELETED + 1):
        rows = np.flatnonzero(lengths == length).astype(np.int32)
        letters = _code_points("".join(words[row] for row in rows.tolist()))
        hashes.append(_deletion_hashes(letters.reshape(-1, length)).ravel())
        owners.append(np.repeat(rows, length + 1))
    return np.concatenate(hashes), np.concatenate(owners)


def _deletion_hashes(letters: Keys) -> Keys:
    """For each row of letters, the hash of all of them, then without the first, the second, ...

    The hash is a polynomial modulo 2**64: letters after the deleted one move down a power.
    """
    powers = np.cumprod(np.full(letters.shape[1] + 1, _BASE, dtype=np.uint64))
    in_place = np.cumsum(letters * powers[1:], axis=1)
    moved = np.cumsum(letters * powers[:-1], axis=1)
    hashes = np.empty((len(letters), letters.shape[1] + 1), dtype=np.uint64)
    hashes[:, 0] = in_place[:, -1]
    hashes[:, 1:] = moved[:, -1:] - moved
    hashes[:, 2:] += in_place[:, :-1]
    return hashes


def _code_points(text: str) -> Keys:
    encoded = text.encode("utf-32-le", "surrogatepass")
    return np.frombuffer(encoded, dtype="<u4").astype(np.uint64)


def _lengths(words: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, words), dtype=np.int64, count=len(words))
