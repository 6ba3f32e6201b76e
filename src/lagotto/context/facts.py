"""Numbers and names of a sentence, in the form in which they are looked for in a passage.

1,749 is 1749, 5 % and five per cent are 5, a month is also its number. A name is a capitalised word
inside a sentence; in a language that capitalises nouns, names can't be told, and none are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

_NUMBER = re.compile(
    r"(?<![\w.])\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[.,]\d+)?"
)
_ISO_MONTH = re.compile(r"(?<!\d)\d{4}-(\d\d)-\d\d(?!\d)")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_ENUMERATION = re.compile(r"\A\s*(?:[-*•]\s+)?(?:\d{1,3}[.)]\s+)?")
_SENTENCE_ENDS = frozenset(".!?:…\n")
_GROUPED = re.compile(r"[,'’\u00a0\u202f](?=\d{3}(?!\d))")

_COUNTED = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_YEAR = """january february march april may june july august september october november
    december"""
_MONTHS = {word: str(number) for number, word in enumerate(_YEAR.split(), 1)}
_NUMERALS = {
    **{word: str(number) for number, word in enumerate(_COUNTED.split())},
    **{word: str(10 * number) for number, word in enumerate(_TENS.split(), 3)},
}
_DIGITS = 28
"""Characters of a number that is compared by value: as many digits are exact."""
_NOUNS_CAPITALISED = 0.2
"""From this share of capitalised words within sentences on, they are not only names."""


def numbers(text: str) -> dict[str, str]:
    """The numbers of a text as they are written, by their value."""
    found: dict[str, str] = {}
    for match in _NUMBER.finditer(_ENUMERATION.sub("", text)):
        found.setdefault(_value(match[0]), match[0])
    return found


def all_numbers(text: str) -> set[str]:
    """The values of numbers, numerals and months, for a text in which others are looked for."""
    words = words_of(text)
    named = {**_NUMERALS, **_MONTHS}
    return {*map(_value, _NUMBER.findall(text)), *(named[word] for word in words & named.keys())}


def names(text: str) -> list[str]:
    """The capitalised words inside sentences, without a possessive ending."""
    inner = list(_inner_words(_ENUMERATION.sub("", text)))
    return list(dict.fromkeys(_bare(word) for word in inner if word[0].isupper() and len(word) > 1))


def words_of(text: str) -> set[str]:
    """The words of a text, for one in which names are looked for."""
    found = {_bare(match[0]).casefold() for match in _WORD.finditer(text)} | months_of_dates(text)
    return found | {part for word in found for part in word.split("-")}


def capitalises_nouns(text: str) -> bool:
    """Whether so many words are capitalised that these can't all be names."""
    inner = list(_inner_words(text))
    return sum(word[0].isupper() for word in inner) > _NOUNS_CAPITALISED * max(1, len(inner))


def months_of_dates(text: str) -> set[str]:
    """The names of months in dates such as 2025-03-04."""
    names = {number: name for name, number in _MONTHS.items()}
    found = {_value(month) for month in _ISO_MONTH.findall(text)}
    return {names[number] for number in found & names.keys()}


def _inner_words(text: str) -> Iterator[str]:
    """The words that are not the first of a sentence."""
    end: int | None = None
    for match in _WORD.finditer(text):
        if end is not None and _SENTENCE_ENDS.isdisjoint(text[end : match.start()]):
            yield match[0]
        end = match.end()


def _bare(word: str) -> str:
    for ending in ("'s", "’s", "'", "’"):
        word = word.removesuffix(ending)
    return word


def _value(number: str) -> str:
    """A number without separators of thousands, leading and trailing zeros."""
    plain = _GROUPED.sub("", number).replace(",", ".")
    return format(Decimal(plain).normalize(), "f") if len(plain) <= _DIGITS else plain
