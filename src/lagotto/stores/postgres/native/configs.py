"""From languages to PostgreSQL's text search configurations."""

from __future__ import annotations

from collections.abc import Collection

from lagotto.terms.stems import language_of

PLAIN = "simple"
"""The configuration that takes words as they are."""

CONFIGS = {
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


def config_of(language: str | None, known: Collection[str]) -> str:
    """The configuration, of those that the server knows, for a language or by its own name."""
    if language in known:
        return language or PLAIN
    wanted = CONFIGS.get(language_of(language) or "", PLAIN)
    return wanted if wanted in known else PLAIN
