"""Words, prefixes and phrases as what FTS5 takes behind MATCH."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lagotto.indexes.text_query import Phrase, Prefix, Word

# FTS5 would cut other strings into pieces, or read capitals as small letters.
_is_term = re.compile(r"(?:[a-z0-9_]|[^\x00-\x7f\ud800-\udfff])+").fullmatch


def expression(match: Word | Prefix | Phrase) -> str | None:
    """The chunks for which `match` holds, None if it can hold for none."""
    if isinstance(match, Word):
        return _any_of([(term,) for term in match.terms])
    if isinstance(match, Prefix):
        return f'"{match.start}" *' if _is_term(match.start) else None
    return _any_of(match.variants)


def _any_of(phrases: Sequence[Sequence[str]]) -> str | None:
    possible = [phrase for phrase in phrases if phrase and all(map(_is_term, phrase))]
    return " OR ".join(f'"{" ".join(phrase)}"' for phrase in possible) or None
