"""Patterns of answers: how a sentence that answers a question may begin, by rules.

Questions that are answered by a date, a person, a place, a number, a reason, a definition or a way
to do something: of those it is known how the sentence goes on that holds the answer, and which
words stand near it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from lagotto.indexes.text_query import Term
from lagotto.terms import analyze

Kind = Literal["time", "person", "place", "number", "reason", "definition", "manner"]

NEAR_ANSWER_WEIGHT = 0.2
"""The weight of a word that often stands near an answer, beside a word of the question."""

NEAR_ANSWERS: dict[str, dict[Kind, str]] = {
    "en": {
        "time": """january february march april june july august september october november
            december year century date day""",
        "person": "he she his her born named led founded president king author director",
        "place": "located near city country north south east west region area street capital",
        "number": "two three four five six hundred thousand million billion percent number total",
        "reason": "because since due caused reason result therefore thus so",
        "definition": "called known defined refers means type kind form term",
        "manner": "by using through first then next step method process must",
    },
    "de": {
        "time": """januar februar märz april juni juli august september oktober november dezember
            jahr""",
        "person": "er sie geboren namens gründer präsident könig autor",
        "place": "liegt nahe stadt land nord süd ost west region straße hauptstadt",
        "number": "zwei drei vier fünf sechs hundert tausend million milliarden prozent anzahl",
        "reason": "weil denn wegen grund daher deshalb ursache folge",
        "definition": "heißt bezeichnet bedeutet begriff art form nennt",
        "manner": "indem durch mit zuerst dann schritt verfahren methode muss",
    },
    "fr": {
        "time": """janvier février mars avril juin juillet août septembre octobre novembre décembre
            année""",
        "person": "il elle né nommé fondateur président roi auteur",
        "place": "situé près ville pays nord sud est ouest région rue capitale",
        "number": "deux trois quatre cinq six cent mille million milliard pourcent nombre",
        "reason": "parce car cause raison donc ainsi suite",
        "definition": "appelé désigne signifie terme type forme sorte",
        "manner": "avec puis ensuite étape méthode procédé faut",
    },
    "es": {
        "time": """enero febrero marzo abril junio julio agosto septiembre octubre noviembre
            diciembre año""",
        "person": "él ella nacido llamado fundador presidente rey autor",
        "place": "situado cerca ciudad país norte sur este oeste región calle capital",
        "number": "dos tres cuatro cinco seis ciento mil millón millones número",
        "reason": "porque debido causa razón pues así resultado",
        "definition": "llamado significa término tipo forma denomina",
        "manner": "mediante usando primero luego paso método proceso debe",
    },
    "ru": {
        "time": """января февраля марта апреля мая июня июля августа сентября октября ноября декабря
            год века""",
        "person": "он она родился основатель президент король автор",
        "place": "расположен около город страна север юг восток запад область улица столица",
        "number": "два три четыре пять шесть сто тысяч миллион миллиард процент число",
        "reason": "потому так как из-за причина поэтому следствие",
        "definition": "называется означает термин вид форма это",
        "manner": "помощью путём сначала затем шаг метод способ нужно",
    },
}  # fmt: skip

_BE = r"(?P<be>is|are|was|were) (?P<rest>.+)"
_DO = r"(?:do|does|did|will|has|have|had|can|could|would|should) (?P<rest>.+)"
_WHEN = (
    r"(?:when|(?:in|on) (?:what|which) (?:year|month|day|date|century|decade)|what (?:year|date))"
)
_WHERE = r"(?:where|in (?:what|which) (?:city|country|state|place|town|region|county|continent))"
_SIZE = r"(?P<size>long|old|tall|far|big|large|high|deep|fast|heavy|wide|often)"
_PARTICIPLE = r"(?P<last>(?:ge|be|ver|er|ent|zer|\w+ge)[a-zäöüß]+(?:t|en))"

# A statement without `be` is filled in as it stands; with it, the verb is moved first.
STATEMENTS: tuple[tuple[str, Kind, str, str], ...] = (
    ("en", "time", f"{_WHEN} {_BE}", "{rest} in"),
    ("en", "time", f"{_WHEN} {_DO}", "{rest} in"),
    ("en", "place", f"{_WHERE} {_BE}", "{rest} in"),
    ("en", "place", f"{_WHERE} {_DO}", "{rest} in"),
    ("en", "person", f"whom? {_BE}", "{rest}"),
    ("en", "person", r"whom? (?:do|does|did) (?P<rest>.+)", "{rest}"),
    ("en", "person", r"who (?P<rest>.+)", "{rest}"),
    ("en", "number", r"how (?:many|much) (?P<what>.+?) (?:do|does|did) (?P<rest>.+)",
     "{rest} {what}"),
    ("en", "number", r"how many (?P<what>.+?) (?:are|were) there (?P<rest>.+)", "{what} {rest}"),
    ("en", "number", r"how many (?P<rest>.+)", "{rest}"),
    ("en", "number", f"how {_SIZE} {_BE}", "{rest} {size}"),
    ("en", "number", f"how (?:much|{_SIZE}) {_DO}", "{rest}"),
    ("en", "number", f"how much {_BE}", "{rest}"),
    ("en", "number", r"how much (?P<rest>.+)", "{rest}"),
    ("en", "reason", f"(?:why|for what reason|how come) {_BE}", "{rest} because"),
    ("en", "reason", f"(?:why|for what reason) {_DO}", "{rest} because"),
    ("en", "definition", r"what (?:do|does) (?P<rest>.+) mean", "{rest} means"),
    ("en", "definition", r"what(?:['’]s| is| are) (?:meant by|the meaning of) (?P<rest>.+)",
     "{rest} means"),
    ("en", "definition", f"what {_BE}", "{rest}"),
    ("en", "definition", r"what['’]s (?P<rest>.+)", "{rest} is"),
    ("en", "manner", r"how (?:do|does|can|could|should|would|must|shall) (?:i|you|we|one|they) "
     r"(?P<rest>.+)", "to {rest}"),
    ("en", "manner", r"how to (?P<rest>.+)", "to {rest}"),
    ("en", "manner", f"how {_BE}", "{rest} by"),
    ("en", "manner", f"how {_DO}", "{rest} by"),
    ("de", "time", rf"(?:wann|in welchem jahr) (?P<verb>\w+) (?P<rest>.+?)(?: {_PARTICIPLE})?",
     "{rest} {verb} im Jahr {last}"),
    ("de", "place", rf"wo (?P<verb>\w+) (?P<rest>.+?)(?: {_PARTICIPLE})?",
     "{rest} {verb} in {last}"),
    ("de", "person", r"we[rnm] (?P<rest>.+)", "{rest}"),
    ("de", "number", r"wie ?viele? (?P<rest>.+)", "{rest}"),
    ("de", "number", r"wie (?:lang|lange|alt|hoch|groß|weit|teuer) (?P<verb>\w+) (?P<rest>.+)",
     "{rest} {verb}"),
    ("de", "reason", rf"(?:warum|wieso|weshalb) (?P<verb>\w+) (?P<rest>.+?)(?: {_PARTICIPLE})?",
     "{rest} {verb} {last} weil"),
    ("de", "definition", r"was (?P<verb>ist|sind|war|waren|bedeutet|bedeuten|heißt) (?P<rest>.+)",
     "{rest} {verb}"),
    ("de", "manner", r"wie (?:kann|kannst|soll|muss) (?:ich|man|du|wir) (?P<rest>.+)",
     "man {rest}"),
    ("de", "manner", rf"wie (?P<verb>\w+) (?P<rest>.+?)(?: {_PARTICIPLE})?",
     "{rest} {verb} {last} indem"),
    ("fr", "time", r"(?:quand|en quelle année)(?: est-ce que?)? (?P<rest>.+)", "{rest} en"),
    ("fr", "place", r"où(?: est-ce que?)? (?P<rest>.+)", "{rest} à"),
    ("fr", "person", r"qui(?: est-ce qui)? (?P<rest>.+)", "{rest}"),
    ("fr", "number", r"combien (?:de |d['’])?(?P<rest>.+)", "{rest}"),
    ("fr", "reason", r"pourquoi(?: est-ce que?)? (?P<rest>.+)", "{rest} parce que"),
    ("fr", "definition", r"(?:qu['’]est-ce (?:que?(?: c['’]est que?)?|qu['’])|que signifie) ?"
     r"(?P<rest>.+)", "{rest} est"),
    ("fr", "manner", r"comment(?: est-ce que?)? (?P<rest>.+)", "{rest} en"),
    ("es", "time", r"(?:cu[áa]ndo|en qu[ée] año) (?P<rest>.+)", "{rest} en"),
    ("es", "place", r"d[óo]nde (?P<rest>.+)", "{rest} en"),
    ("es", "person", r"qui[ée]n(?:es)? (?P<rest>.+)", "{rest}"),
    ("es", "number", r"cu[áa]nt[oa]s? (?P<rest>.+)", "{rest}"),
    ("es", "reason", r"por qu[ée] (?P<rest>.+)", "{rest} porque"),
    ("es", "definition", r"qu[ée] (?P<verb>es|son|significa|era) (?P<rest>.+)", "{rest} {verb}"),
    ("es", "manner", r"c[óo]mo (?P<rest>.+)", "{rest} mediante"),
    ("ru", "time", r"(?:когда|в каком году) (?P<rest>.+)", "{rest} в"),
    ("ru", "place", r"где (?P<rest>.+)", "{rest} в"),
    ("ru", "person", r"кто (?P<rest>.+)", "{rest}"),
    ("ru", "number", r"сколько (?P<rest>.+)", "{rest}"),
    ("ru", "reason", r"(?:почему|зачем|отчего) (?P<rest>.+)", "{rest} потому что"),
    ("ru", "definition", r"что (?:такое|значит|означает) (?P<rest>.+)", "{rest} это"),
    ("ru", "manner", r"как (?P<rest>.+)", "{rest} с помощью"),
)  # fmt: skip

IRREGULAR = """
    born built made won held found sold known shot begun taken given sent lost paid left led set
    written chosen broken spoken driven eaten fallen frozen hidden beaten stolen drawn grown shown
    thrown flown worn torn sung struck spent bought brought caught taught fought kept meant told
    laid read cut put hit done seen gone become
"""
"""English participles that don't end in -ed."""

LONGEST_QUESTION = 400
"""Characters; whatever is longer is no plain question."""

_IRREGULAR = frozenset(IRREGULAR.split())
_EDGES = " \t\n\r?？!.¿¡\"'"


@dataclass(frozen=True, slots=True)
class _Reading:
    language: str
    kind: Kind
    statement: str


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of STATEMENTS; compiling them takes longer than a search without them."""
    return tuple(re.compile(pattern, re.IGNORECASE) for _, _, pattern, _ in STATEMENTS)


def declarative(query: str) -> str | None:
    """The question as the sentence that answers it might begin; None if no rule applies.

    "When was Stargate Atlantis cancelled?" becomes "Stargate Atlantis was cancelled in". For
    embedding: verbs of English and French questions are moved or dropped, not inflected.
    """
    reading = _read(query)
    return reading.statement if reading else None


def answer_patterns(
    query: str, languages: Sequence[str | None] = (None,)
) -> tuple[tuple[Term, ...], ...]:
    """Words that stand near answers to such a question, as one more word for a TextQuery.

    They are alternatives with a small weight: months for "when", number words for "how many".
    Empty if the question is none of the known.
    """
    reading = _read(query)
    if reading is None:
        return ()
    text = NEAR_ANSWERS[reading.language][reading.kind]
    terms = dict.fromkeys(
        term for tag in tuple(languages) or (None,) for term in analyze(text, tag)
    )
    return (tuple(Term(term, NEAR_ANSWER_WEIGHT) for term in terms),)


def _read(query: str) -> _Reading | None:
    question = " ".join(query[: LONGEST_QUESTION + 1].split()).strip(_EDGES)
    if len(question) > LONGEST_QUESTION:
        return None
    for (language, kind, _, template), pattern in zip(STATEMENTS, _patterns(), strict=True):
        if found := pattern.fullmatch(question):
            parts = {name: part or "" for name, part in found.groupdict().items()}
            if "be" in parts:
                parts["rest"] = _with_verb(parts["be"], parts["rest"])
            return _Reading(language, kind, " ".join(template.format(**parts).split()))
    return None


def _with_verb(verb: str, rest: str) -> str:
    """The rest of an English question with the verb before its participle, else at the end."""
    words = rest.split()
    index = next((at for at, word in enumerate(words) if _is_participle(word)), len(words))
    return " ".join([*words[:index], verb, *words[index:]])


def _is_participle(word: str) -> bool:
    return word in _IRREGULAR or (word.islower() and len(word) > 4 and word.endswith("ed"))
