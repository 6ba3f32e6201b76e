"""Language detection: offline, on a bounded sample, None when unsure."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from typing import Any

from lagotto.documents import Document, in_context
from lagotto.errors import ReadError

LETTERS_NEEDED = 12
CONFIDENCE_NEEDED = 0.5
SLICE = 400

_TAG = re.compile(r"([A-Za-z]{2,3})([-_].*)?")
_WORD = re.compile(r"(?:[^\W\d_]|['’\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e])+")

SCRIPTS = {
    "ja": "\u3040-\u30ff",
    "ko": "\u1100-\u11ff\uac00-\ud7af",
    "zh": "\u4e00-\u9fff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff",
    "th": "\u0e00-\u0e7f",
    "hy": "\u0530-\u058f",
    "ka": "\u10a0-\u10ff",
    "km": "\u1780-\u17ff",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "si": "\u0d80-\u0dff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "gu": "\u0a80-\u0aff",
    "pa": "\u0a00-\u0a7f",
}
"""Scripts used by a single language, however short the text. Kana is checked before Han."""

_SCRIPTS = {language: re.compile(f"[{ranges}]") for language, ranges in SCRIPTS.items()}

VARIETIES = {
    "arz": "ar", "ary": "ar", "wuu": "zh", "yue": "zh", "nn": "no", "grc": "el", "hbo": "he",
    "pcm": "en", "ext": "es", "an": "es",
}  # fmt: skip
"""Varieties that share a stemmer with their main language."""


def detect_language(text: str) -> str | None:
    """The ISO 639-1 code of the main language of `text`, or None when unsure."""
    sample = _sample(text)
    letters = len(sample) - sample.count(" ")
    if by_script := _by_script(sample, letters):
        return by_script
    if letters < LETTERS_NEEDED:
        return None
    language, share = _most_likely(sample)
    return language if share >= CONFIDENCE_NEEDED and len(language) == 2 else None


def document_language(title: str | None, text: str) -> str | None:
    """The language of a document by its title and its text, or None when unsure."""
    return detect_language(in_context(title, text))


def with_language(document: Document, language: str | None = None) -> Document:
    """A document of unknown language with that of the caller, or the one that is detected.

    As for files, code is left without one.
    """
    if document.language or (language is None and document.kind == "code"):
        return document
    found = language or document_language(document.title, document.text)
    return document.model_copy(update={"language": found}) if found else document


def confidence(text: str) -> float:
    """How much `text` resembles any language, from 0 to 1; 0 if it is too short."""
    sample = _sample(text)
    return _ranked(sample)[0][1] if len(sample.encode()) >= LETTERS_NEEDED else 0.0


def language_code(tag: str | None) -> str | None:
    """The language of a tag such as `en-GB` or `de_AT`; None for anything else."""
    match = _TAG.fullmatch((tag or "").strip())
    return match[1].lower() if match else None


def _sample(text: str) -> str:
    """The words at the beginning, middle and end, without digits and punctuation."""
    middle = len(text) // 2
    slices = (
        text
        if len(text) <= 3 * SLICE
        else " ".join((text[:SLICE], text[middle : middle + SLICE], text[-SLICE:]))
    )
    return " ".join(_WORD.findall(slices))


def _by_script(sample: str, letters: int) -> str | None:
    if max(sample, default="") < "\u0370":  # Latin, the usual case
        return None
    for language, script in _SCRIPTS.items():
        found = len(script.findall(sample))
        needed = 0.2 if language == "ja" else 0.5  # Japanese mixes its kana with Han
        if found and found >= needed * letters:
            return language
    return None


def _most_likely(sample: str) -> tuple[str, float]:
    shares: dict[str, float] = {}
    for label, share in _ranked(sample):
        language = VARIETIES.get(label, label)
        shares[language] = shares.get(language, 0.0) + share
    shares.pop("zxx", None)
    return max(shares.items(), key=lambda item: item[1])


def _ranked(sample: str) -> list[tuple[str, float]]:
    """The languages with their probabilities, the most likely first."""
    ranked: list[tuple[str, float]] = _identifier().rank(sample)
    return ranked


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as exc:  # it is unpacked into a temporary file
        raise ReadError(
            "language detection",
            f"its model can't be unpacked in {tempfile.gettempdir()} ({exc.strerror}); free some "
            "disk space there, set TMPDIR, or pass the language",
        ) from exc
