"""Synonyms and acronyms: words and phrases of a collection that mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from lagotto.errors import ConfigError
from lagotto.terms.analyzer import analyze
from lagotto.terms.words import runs

Group = tuple[str, ...]
"""Words and phrases, each of which stands for all."""

LONGEST = 8
"""Words of a phrase."""


class Synonyms:
    """The groups of a collection, found in queries by the terms that they are indexed as."""

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self.groups = checked_groups(groups)
        self._table = lru_cache(maxsize=8)(self._make_table)

    def find(self, query: str, languages: Sequence[str | None]) -> dict[str, Group]:
        """The words and phrases of a query, as the file has them, that others stand for.

        Of phrases that overlap the longest counts: in `paid time off`, `time` is not what is meant.
        """
        synonyms: dict[str, Group] = {}
        for language in languages:
            table = self._table(language)
            terms = analyze(query, language)
            start = 0
            while start < len(terms):
                spans = (tuple(terms[start : start + size]) for size in range(LONGEST, 0, -1))
                match = next((span for span in spans if span in table), None)
                for phrase, others in table.get(match or (), ()):
                    synonyms[phrase] = tuple(dict.fromkeys((*synonyms.get(phrase, ()), *others)))
                start += len(match) if match else 1
        return synonyms

    def _make_table(self, language: str | None) -> dict[tuple[str, ...], list[tuple[str, Group]]]:
        """For the terms of each word or phrase, the phrase and what else is in its group."""
        table: dict[tuple[str, ...], list[tuple[str, Group]]] = {}
        for group in self.groups:
            for phrase in group:
                others = tuple(other for other in group if other != phrase)
                table.setdefault(tuple(analyze(phrase, language)), []).append((phrase, others))
        return table


def parse_synonyms(text: str) -> list[Group]:
    """The groups of a file, such as `PTO, paid time off`: one in a line, `#` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [tuple(part.strip() for part in line.split(",")) for line in lines if line]


def checked_groups(groups: Iterable[Sequence[str]]) -> tuple[Group, ...]:
    """The groups without repetitions; ConfigError for one that says nothing."""
    valid = []
    for entry in groups:
        names = (entry,) if isinstance(entry, str) else entry
        group = tuple(dict.fromkeys(" ".join(str(name).split()) for name in names))
        shown = ", ".join(group)
        if "=>" in shown:
            raise ConfigError(f"{shown!r}: synonyms stand for one another; write a comma for =>")
        if len(group) < 2 or not all(runs(name) for name in group):
            raise ConfigError(f"{shown!r} has no synonym; write another word, as in PTO, leave")
        if long := next((name for name in group if len(analyze(name)) > LONGEST), None):
            raise ConfigError(f"{long!r} has more than {LONGEST} words; write the shortest phrase")
        valid.append(group)
    return tuple(valid)
