"""Names of languages: ISO 639 codes, and the names of Snowball and of PostgreSQL."""

from __future__ import annotations

import re

from lagotto.terms.stems import language_of

UNSTEMMED = "simple"
"""The name of the configuration that does not stem."""

NAMES = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
"""Languages with a stemmer, by their codes."""

_CODES = {name: code for code, name in NAMES.items()}
_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*")


def language_named(name: str) -> str | None:
    """The code of the language that a name stands for: `english`, `en`, `en-GB`; None for `simple`.

    ValueError for any other text.
    """
    known = name.strip().lower().removeprefix("pg_catalog.")
    if known == UNSTEMMED:
        return None
    if known in _CODES:
        return _CODES[known]
    if _TAG.fullmatch(known):
        return language_of(known)
    raise ValueError(f"{name!r} is no language; name one as english or en, or {UNSTEMMED} for none")
