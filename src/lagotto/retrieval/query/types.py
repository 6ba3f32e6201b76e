"""Query types, quotations and identifiers, found by rules; no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from lagotto.indexes.text_query import Phrase
from lagotto.prefs import QueryType
from lagotto.retrieval.query.syntax import operand, quoted_in
from lagotto.terms import query_terms
from lagotto.terms.languages import language_of
from lagotto.terms.words import UNSPACED, fold, is_european, runs

FEW_WORDS = 5
"""A query of more content words is a description."""

QUESTION_WORDS = {
    "en": "what when where which who whom whose why how",
    "de": """was wann wo welche welcher welches welchen welchem wer wem wen wessen warum wieso
        weshalb wie wieviel wieviele woher wohin wodurch womit wofür wozu woran worin""",
    "fr": """que quoi quand où quel quelle quels quelles qui pourquoi comment combien lequel
        laquelle qu""",
    "es": """qué cuándo dónde cuál cuáles quién quiénes cómo cuánto cuánta cuántos cuántas
        adónde""",
    "it": "che cosa cos chi quando dove quale quali perché come quanto quanta quanti quante",
    "pt": "que quando onde qual quais quem porque como quanto quanta quantos quantas",
    "ru": """кто кого кому кем что чего чем где когда почему зачем как какой какая какое какие
        какого каком каким какую каких сколько куда откуда чей чья чьё чьи""",
}
BEFORE_QUESTION_WORDS = """
    in on at by to for of from with about since until
    an auf aus bei für mit seit von zu
    à de en par pour dans depuis
    a con desde por hasta
    da di per su
    o em com
    в во на с со к из о об от для до по у
"""
"""Small words that a question may begin with: In which year, by whom, в каком году."""

VERBS_FIRST = """
    is are was were do does did has have had can could will would should may might
"""
"""First words of English questions that are answered by yes or no."""

ASKS_UNSPACED = (
    "什么|什麼|谁|誰|哪|何时|何時|何地|为何|為何|怎么|怎麼|如何|多少|吗|嗎"
    "|なぜ|どこ|いつ|どう|どの|どんな|どれ|いくつ|いくら|ですか|ますか|何[がをはでの人年時月日]"
)
_QUESTION_MARK = re.compile(r"[?？؟¿](?=\W|$)|^\W*¿")
_SENTENCE_END = re.compile(r"[.!。！…][\s\"'”»)]*$")


LONGEST_IDENTIFIER = 256
"""The maximal length of an identifier, in characters."""

UPPER = "A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я"
LOWER = "a-zß-öø-ÿα-ωа-џ"
LETTER = r"[^\W\d_]"
SMALL = rf"(?:(?![{UPPER}]){LETTER})"
HYPHEN = "[-\u2010\u2011]"

SHAPES = {
    "an underscore inside": r"[^\W_]_+[^\W_]",
    "a digit after a letter": rf"{LETTER}\d",
    "capitals, a hyphen and a number": (
        rf"(?<!\w)(?:(?:{SMALL}*+[{UPPER}]){{2}}{LETTER}*+|[{UPPER}][{LOWER}]?){HYPHEN}\d"
    ),
    "letters and several numbers": rf"^{LETTER}+(?:{HYPHEN}\d+){{2,}}$",
    "camel case": (
        rf"^[{LOWER}]{{2}}[^\W_]*[{UPPER}](?!s$)[{LOWER}]|^(?:[{UPPER}][{LOWER}]+){{3,}}$"
    ),
    "dots between names": (
        rf"^(?!.*\b{LETTER}+\.[{UPPER}][{LOWER}]+$)"
        rf"(?:.*/)?{LETTER}\w+(?:\.{LETTER}\w+)+(?:\(\))?$"
    ),
    "a path": r"^(?:~|\.{1,2})?/\.?\w{2}|\w:?\\\w",
    "an address": r"\w://\w|\w@\w|^@\w{2}",
    "colons between names": rf"\w::\w|^{LETTER}+:\w+:\w",
    "a call": r"\w\(\)$",
    "an option": rf"^--{LETTER}{{2}}",
    "an IP address": r"^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$",
}
"""The shapes of identifiers, in the order in which they are tried.

No hyphenated words (well-known), numbers, years, ordinals (19th), measures (10km, 24-hour), and
no abbreviations (e.g., U.S.).
"""

_SHAPES = {reason: re.compile(pattern) for reason, pattern in SHAPES.items()}
_BEFORE = "'`‘’“”„«»¿¡()[]{}<>*"
_BEHIND = "'`‘’“”„«»!?.:…([]{}<>*"
_ENDING = re.compile(
    rf"['’]s?$|(?<=\d){HYPHEN}(?:[{LOWER}]+(?:ed|ing)|(?:in)?dependent|deficient|like|free|positive"
    r"|negative|specific|type|style|compatible)$"
)
"""Endings that do not belong to an identifier: ERR_4012's, TDP-43-induced."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The type of a query and the reason, for people."""

    type: QueryType
    reason: str


def classify(query: str, languages: Sequence[str | None] = (None,)) -> Classified:
    """The type of `query` over documents in `languages`.

    `exact`: nothing but identifiers and quotations, besides stop words. `question`: it asks.
    `keywords`: a few words that make no sentence. `description`: everything else.
    """
    quoted = [part for part in quoted_in(query).findall(query) if runs(part)]
    named = [word for word, _ in find_identifiers(query)]
    rest = quoted_in(query).sub(" ", query)
    for word in sorted(named, key=len, reverse=True):  # as one may hold another
        rest = rest.replace(word, " ")
    if (quoted or named) and all(term.stop for term in query_terms(rest, languages)):
        return Classified("exact", f"only exact wordings: {', '.join([*quoted, *named])}")
    if reason := _question(query, languages):
        return Classified("question", reason)
    terms = query_terms(query, languages)
    content = [term for term in terms if not term.stop]
    counts = f"{len(content)} content words and {len(terms) - len(content)} stop words"
    if _SENTENCE_END.search(query):
        return Classified("description", f"a sentence with {counts}")
    if len(content) > FEW_WORDS or 0 < len(content) < len(terms) - len(content):
        return Classified("description", counts)
    return Classified("keywords", counts)


def quotations(query: str, languages: Sequence[str | None] = (None,)) -> list[Phrase]:
    """The quoted parts of `query`, of one word or more, stop words included."""
    return _phrases(quoted_in(query).findall(query), languages)


def identifiers(query: str, languages: Sequence[str | None] = (None,)) -> list[Phrase]:
    """The identifiers of `query` as the phrases of their parts: ERR_4012 is "err 4012"."""
    return _phrases((word for word, _ in find_identifiers(query)), languages)


@lru_cache(maxsize=64)  # asked for twice in a search, for the type and for the exact leg
def find_identifiers(query: str) -> tuple[tuple[str, str], ...]:
    """The distinct identifiers outside quotations in order, each with its shape."""
    bare = quoted_in(query).sub(" ", query)
    gaps = EUROPEAN_GAPS if is_european(bare) else _all_gaps()
    words = dict.fromkeys(
        _trimmed(word) for word in gaps.split(bare) if len(word) <= LONGEST_IDENTIFIER
    )
    return tuple((word, shape) for word in words if (shape := _shape(word)))


@lru_cache(maxsize=1024)
def _shape(word: str) -> str | None:
    return next((name for name, shape in _SHAPES.items() if shape.search(word)), None)


EUROPEAN_GAPS = re.compile(r"[\s,;|\"]+")
_all_gaps = cache(partial(re.compile, rf"[\s,;|\"{UNSPACED}]+"))
_asks_unspaced = cache(partial(re.compile, ASKS_UNSPACED))
"""Compiled when needed: they are long, and most queries are ASCII."""


def _trimmed(word: str) -> str:
    """The word without the punctuation around; the parentheses of a call stay."""
    bare = _ENDING.sub("", word.lstrip(_BEFORE).rstrip(_BEHIND))
    name, call, behind = bare.partition("()")
    return name + call if call and not behind.strip(")") else bare.rstrip(")" + _BEHIND)


def _phrases(texts: Iterable[str], languages: Sequence[str | None]) -> list[Phrase]:
    operands = filter(None, (operand(text, languages) for text in texts))
    return list(dict.fromkeys(Phrase(tuple(dict.fromkeys(one.variants))) for one in operands))


def _question(query: str, languages: Sequence[str | None]) -> str | None:
    """The reason why it is a question, None if it is not one."""
    if _QUESTION_MARK.search(query):
        return "a question mark"
    if not query.isascii() and (asking := _asks_unspaced().search(query)):
        return f"the question word {asking.group()}"
    words = [fold(word) for word in runs(query)[:4]]
    known = [QUESTION_WORDS[tag] for tag in map(language_of, languages) if tag in QUESTION_WORDS]
    question_words = _folded(" ".join(known or QUESTION_WORDS.values()))
    first = 1 if words[1:] and words[0] in _folded(BEFORE_QUESTION_WORDS) else 0
    for word in (*words[:1], *words[first : first + 1]):
        if word in question_words:
            return f"the question word {word}"
    if len(words) == 4 and words[0] in _folded(VERBS_FIRST):
        return f"it begins with the verb {words[0]}"
    return None


@cache
def _folded(listed: str) -> frozenset[str]:
    return frozenset(fold(word) for word in listed.split())
