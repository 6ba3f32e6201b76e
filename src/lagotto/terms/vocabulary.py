"""The vocabulary of an index: similar terms, and corrections of misspelt words."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from lagotto.terms.words import JOINER, runs

SHORTEST_CORRECTED = 3
"""Characters; too many shorter words are one edit apart."""

MIN_LIKENESS = 0.5
TRIGRAM_SHARE = 1 / 3
FREQUENCY_SHARE = 0.2
"""Weights of trigrams against edits, and of term frequency. Chosen by measurement."""

MOST_CORRECTIONS, MOST_SIMILAR = 3, 10
"""Terms that stand for a word."""

MOST_CORRECTED = 2_000
"""Words whose corrections are kept: within a filter, ordinary words are unknown again and again."""

CANDIDATES = 50
LEAST_SIMILARITY = 0.1
"""Edit distances are computed for this many terms, with at least this trigram similarity."""


class Vocabulary:
    """An immutable set of index terms, searchable by trigrams and by edit distance.

    `terms` are results of `index_terms`, of which compounds are left out: nobody misspells a
    number as a whole. If they are given with document frequencies, `corrections` prefers frequent
    ones. Takes about 200 bytes per term.
    """

    def __init__(self, terms: Iterable[str] | Mapping[str, int]) -> None:
        self.terms = tuple(sorted({term for term in terms if JOINER not in term}))
        self._factors = np.ones(len(self.terms))
        if isinstance(terms, Mapping) and terms:
            counts = np.log1p([terms[term] for term in self.terms])
            self._factors -= FREQUENCY_SHARE * (1 - counts / (counts.max() or 1))
        self._trigrams = FeaturePostings(*trigram_pairs(self.terms))
        self._sizes = np.bincount(self._trigrams.ids, minlength=len(self.terms))
        self._deletions = FeaturePostings(*deletion_pairs(self.terms))
        self._corrected: dict[tuple[str, int], tuple[tuple[str, float], ...]] = {}

    def __len__(self) -> int:
        return len(self.terms)

    def __contains__(self, term: str) -> bool:
        index = bisect_left(self.terms, term)
        return index < len(self.terms) and self.terms[index] == term

    def similar(
        self, word: str, *, threshold: float = 0.3, limit: int = MOST_SIMILAR
    ) -> list[tuple[str, float]]:
        """Terms with a trigram similarity to `word` of at least `threshold`, and above 0.

        The most similar first; ties in the order of the terms.
        """
        similarities = self._similarities(word)
        nearest = _nearest(similarities, threshold=threshold, limit=limit)
        return [(self.terms[term], float(similarities[term])) for term in nearest.tolist()]

    def corrections(self, word: str, *, limit: int = MOST_CORRECTIONS) -> list[tuple[str, float]]:
        """Terms to search for instead of `word`, an analysed term, with weights in (0, 1].

        Best first, without the word itself. Words of one or two characters are not corrected.
        Digits stay as they are: `fy21` is not a misspelling of `fy23`.
        """
        known = self._corrected.get((word, limit))
        if known is None:
            known = self._correct(word, limit) if _is_corrected(word) else ()
            if len(self._corrected) >= MOST_CORRECTED:
                self._corrected.clear()
            self._corrected[word, limit] = known
        return list(known)

    def is_corrected(self, word: str, *, limit: int) -> bool:
        """Whether `corrections` has the answer already."""
        return (word, limit) in self._corrected

    def _correct(self, word: str, limit: int) -> tuple[tuple[str, float], ...]:
        weighted = []
        similarities, digits = self._similarities(word), _digits(word)
        neighbours = self._deletions.having(deletion_pairs([word])[0])
        nearest = _nearest(similarities, threshold=LEAST_SIMILARITY, limit=CANDIDATES)
        for term in sorted({*neighbours.tolist(), *nearest.tolist()}):
            if self.terms[term] == word:
                continue
            likeness = _likeness(word, self.terms[term], float(similarities[term]))
            if likeness >= MIN_LIKENESS and _digits(self.terms[term]) == digits:
                weighted.append((self.terms[term], likeness * float(self._factors[term])))
        return tuple(sorted(weighted, key=lambda pair: (-pair[1], pair[0]))[:limit])

    def _similarities(self, word: str) -> NDArray[np.float64]:
        codes = np.array(sorted(set(trigram_pairs([word])[0].tolist())), np.uint64)
        shared = np.bincount(self._trigrams.having(codes), minlength=len(self.terms))
        similarities: NDArray[np.float64] = shared / (len(codes) + self._sizes - shared)
        return similarities


class SimilarWords:
    """Finds which of a few words may be misspellings of a term, for many terms one by one.

    By the likeness of `Vocabulary.corrections`, at least `threshold`, of which trigrams are the
    smaller part: where they are too few, the edit distance is not computed.
    """

    def __init__(self, words: Iterable[str], *, threshold: float) -> None:
        self._threshold = threshold
        self._having: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        for word in filter(_is_corrected, words):
            features = set(word_trigrams(word))
            self._sizes[word] = len(features)
            for feature in features:
                self._having.setdefault(feature, []).append(word)

    def to(self, term: str) -> list[tuple[str, float]]:
        """The words that are like `term`, each with its likeness."""
        features = set(word_trigrams(term))
        lists = (self._having[feature] for feature in features if feature in self._having)
        similar = []
        for word, shared in Counter(chain.from_iterable(lists)).items():
            similarity = shared / (self._sizes[word] + len(features) - shared)
            fewest = max(1, abs(len(word) - len(term))) / max(len(word), len(term))
            if _weighted(fewest, similarity) < self._threshold or _digits(word) != _digits(term):
                continue
            likeness = _likeness(word, term, similarity)
            if likeness >= self._threshold:
                similar.append((word, likeness))
        return similar


def _is_corrected(word: str) -> bool:
    return len(word) >= SHORTEST_CORRECTED and not word.isdigit() and JOINER not in word


def _nearest(
    similarities: NDArray[np.float64], *, threshold: float, limit: int
) -> NDArray[np.int64]:
    """The ids of the most similar terms, best first; ties by id."""
    ids = np.flatnonzero((similarities >= threshold) & (similarities > 0))
    return ids[np.argsort(-similarities[ids], kind="stable")[:limit]]


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))


def _likeness(word: str, term: str, similarity: float) -> float:
    return _weighted(edit_distance(word, term) / max(len(word), len(term)), similarity)


def _weighted(edits: float, similarity: float) -> float:
    """The likeness of two words, of which a share `edits` of the longer one is edited."""
    return (1 - TRIGRAM_SHARE) * (1 - edits) + TRIGRAM_SHARE * similarity


def trigrams(text: str) -> set[str]:
    """The trigrams of each word, padded with two spaces before it and one after it."""
    return set(chain.from_iterable(map(word_trigrams, runs(text))))


def word_trigrams(word: str) -> list[str]:
    padded = f"  {word} "
    return [padded[start : start + 3] for start in range(len(padded) - 2)]


def similarity(first: str, second: str) -> float:
    """The Jaccard similarity of the trigrams of both texts; 0 if there are none."""
    one, other = trigrams(first), trigrams(second)
    return len(one & other) / len(one | other) if one or other else 0.0


def word_similarity(query: str, text: str) -> float:
    """The greatest similarity of `query` to any run of trigrams of `text`, in linear time."""
    wanted = trigrams(query)
    stream = list(chain.from_iterable(map(word_trigrams, runs(text))))
    reachable = len(wanted.intersection(stream))
    best = 0.0
    for start, first in enumerate(stream):
        if first in wanted:
            best = max(best, _best_run(stream, start, wanted, reachable, best))
    return best


def _best_run(
    stream: list[str], start: int, wanted: set[str], reachable: int, best: float
) -> float:
    """The similarity of the best run from `start` on, or `best` if none is better."""
    seen: set[str] = set()
    common = 0
    for index in range(start, len(stream)):
        trigram = stream[index]
        if seen and trigram == stream[start]:
            break  # the run that starts here is shorter and has the same trigrams
        if trigram not in seen:
            seen.add(trigram)
            common += trigram in wanted
        others = len(seen) - common
        best = max(best, common / (len(wanted) + others))
        if reachable <= best * (len(wanted) + others):
            break
    return best


def edit_distance(first: str, second: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours between two words.

    This is the optimal string alignment distance, which edits no substring twice: "ca" to "abc"
    takes three edits.
    """
    while first and second and first[0] == second[0]:  # most of a misspelt word
        first, second = first[1:], second[1:]
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    before: list[int] = []
    last = list(range(len(second) + 1))
    for row, char in enumerate(first, start=1):
        current = [row]
        for column, other in enumerate(second, start=1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (char != other))
            if row > 1 < column and char == second[column - 2] and first[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1]


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
    """For each row of letters, the hash of all of them, then without the first, the second, ..."""
    # a polynomial modulo 2**64: letters after the deleted one move down a power
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


Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]


class FeaturePostings:
    """`ids[starts[i]:starts[i + 1]]` are the terms with the feature `keys[i]`.

    Made from (feature, term) pairs; the pairs of one term must be adjacent.
    """

    def __init__(self, features: Keys, ids: Ids) -> None:
        order = np.argsort(features, kind="stable")
        features, ids = features[order], ids[order]
        other_feature = np.diff(features, prepend=~features[:1]) != 0
        new = other_feature | (np.diff(ids, prepend=-1) != 0)
        self.keys, self.ids = features[other_feature], ids[new]
        self.starts = np.append(np.flatnonzero(other_feature[new]), np.count_nonzero(new))

    def having(self, features: Keys) -> Ids:
        """The terms with any of the features, once per feature."""
        starts = self.starts[np.searchsorted(self.keys, features)]
        ends = self.starts[np.searchsorted(self.keys, features, side="right")]
        lists = [self.ids[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([self.ids[:0], *lists])
