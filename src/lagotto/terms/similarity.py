"""Similarity of words: by trigrams, as in PostgreSQL's pg_trgm, or by edit distance."""

from __future__ import annotations

from itertools import chain

from lagotto.terms.words import runs


def trigrams(text: str) -> set[str]:
    """The trigrams of each word, padded with two spaces before it and one after it."""
    return set(chain.from_iterable(map(word_trigrams, runs(text))))


def word_trigrams(word: str) -> list[str]:
    """The trigrams of a single word, in order."""
    padded = f"  {word} "
    return [padded[start : start + 3] for start in range(len(padded) - 2)]


def similarity(first: str, second: str) -> float:
    """The Jaccard similarity of the trigrams of both texts; 0 if there are none."""
    one, other = trigrams(first), trigrams(second)
    return len(one & other) / len(one | other) if one or other else 0.0


def word_similarity(query: str, text: str) -> float:
    """The greatest similarity of `query` to any run of consecutive trigrams of `text`.

    Takes time linear in the length of the text.
    """
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
    found = 0
    for index in range(start, len(stream)):
        trigram = stream[index]
        if seen and trigram == stream[start]:
            break  # the run that starts here is shorter and has the same trigrams
        if trigram not in seen:
            seen.add(trigram)
            found += trigram in wanted
        others = len(seen) - found
        best = max(best, found / (len(wanted) + others))
        if reachable <= best * (len(wanted) + others):
            break
    return best


def edit_distance(first: str, second: str) -> int:
    """The number of insertions, deletions, replacements and swaps of neighbours between two words.

    This is the optimal string alignment distance, which edits no substring twice: "ca" to "abc"
    takes three edits.
    """
    first, second = _without_shared_ends(first, second)
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


def _without_shared_ends(first: str, second: str) -> tuple[str, str]:
    """Strip the common prefix and suffix, most of a misspelt word."""
    start = _shared_start(first, second)
    first, second = first[start:], second[start:]
    end = _shared_start(first[::-1], second[::-1])
    return first[: len(first) - end], second[: len(second) - end]


def _shared_start(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second))
    )
