"""Query expansion: answer patterns, feedback, a language model."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, runtime_checkable

from lagotto.indexes.text_query import Term
from lagotto.terms import analyze, stop_words
from lagotto.terms.words import fold, words

Kind = Literal["time", "person", "place", "number", "reason", "definition", "manner"]

NEAR_ANSWER_WEIGHT = 0.2
"""The weight of a word that often stands near an answer, beside a word of the question; also the
part that it adds of what the trigrams of a whole text lack to 1."""

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


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of STATEMENTS; compiling them takes longer than a search without them."""
    return tuple(re.compile(pattern, re.IGNORECASE) for _, _, pattern, _ in STATEMENTS)


def declarative(query: str) -> str | None:
    """The question as the sentence that answers it might begin; None if no rule applies.

    "When was Stargate Atlantis cancelled?" becomes "Stargate Atlantis was cancelled in". For
    embedding: verbs of English and French questions are moved or dropped, not inflected.
    """
    return _read(query)[0]


def answer_words(query: str) -> tuple[str, ...]:
    """Words that stand near answers to such a question, as they are written."""
    return tuple(_read(query)[1].split())


def answer_patterns(
    query: str, languages: Sequence[str | None] = (None,)
) -> tuple[tuple[Term, ...], ...]:
    """Words that stand near answers to such a question, as one more word for a TextQuery.

    They are alternatives with a small weight: months for "when", number words for "how many".
    Empty if the question is none of the known.
    """
    text = " ".join(answer_words(query))
    terms = dict.fromkeys(
        term for tag in tuple(languages) or (None,) for term in analyze(text, tag)
    )
    return (tuple(Term(term, NEAR_ANSWER_WEIGHT) for term in terms),) if terms else ()


def _read(query: str) -> tuple[str | None, str]:
    """The statement that a question asks to complete, and words near answers to it."""
    question = " ".join(query[: LONGEST_QUESTION + 1].split()).strip(_EDGES)
    for (language, kind, _, template), pattern in zip(STATEMENTS, _patterns(), strict=True):
        if len(question) <= LONGEST_QUESTION and (match := pattern.fullmatch(question)):
            parts = {name: part or "" for name, part in match.groupdict().items()}
            if "be" in parts:
                parts["rest"] = _with_verb(parts["be"], parts["rest"])
            return " ".join(template.format(**parts).split()), NEAR_ANSWERS[language][kind]
    return None, ""


def _with_verb(verb: str, rest: str) -> str:
    """The rest of an English question with the verb before its participle, else at the end."""
    words = rest.split()
    participles = (
        index
        for index, word in enumerate(words)
        if word in _IRREGULAR or (word.islower() and len(word) > 4 and word.endswith("ed"))
    )
    words.insert(next(participles, len(words)), verb)
    return " ".join(words)


FEEDBACK_WEIGHT = 0.3
"""The weight of the best added word beside that of a word of the query."""

LONGEST_QUERY = 4_000
"""The part of a query that a model is shown, in characters."""

REWRITE_PROMPT = """\
Write {count} other search queries for what this query asks. Use other words and names for the same
things. One query per line, nothing else.

<query>
{query}
</query>"""

PASSAGE_PROMPT = """\
Write one short passage, as it might stand in a document, that answers this query. If you don't know
the answer, write what such a passage would say. Only the passage, in the language of the query.

<query>
{query}
</query>"""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What to search for besides the query.

    `queries` are other ways to ask; `passages` are made-up answers, which are embedded as
    documents; `terms` are more words for the text leg, each by its alternatives.
    """

    queries: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    terms: tuple[tuple[Term, ...], ...] = ()


@runtime_checkable
class Expander(Protocol):
    """Expands queries.

    Contract: `expand` changes nothing and may be called concurrently. An Expansion without
    anything in it means that there is nothing to add. The query itself is always searched for,
    so it need not be repeated. A failure is a RetrievalError: the search continues without it.
    """

    async def expand(self, query: str) -> Expansion:
        """What to search for besides `query`."""
        ...


class LlmExpander:
    """Asks a language model for other queries and for a passage that would answer.

    `complete` takes a prompt and gives the model's answer; what it raises is raised. Numbered
    lists, JSON, code fences and remarks around the list are understood.
    """

    def __init__(
        self, complete: Callable[[str], Awaitable[str]], *, queries: int = 3, passages: int = 1
    ) -> None:
        self._complete = complete
        self._queries = queries
        self._passages = passages

    async def expand(self, query: str) -> Expansion:
        """Other queries and made-up passages; fewer than asked for if the model gives fewer."""
        shown = query[:LONGEST_QUERY]
        rewrite = REWRITE_PROMPT.format(count=self._queries, query=shown)
        prompts = [rewrite] if self._queries else []
        prompts += [PASSAGE_PROMPT.format(query=shown)] * self._passages
        answers = await asyncio.gather(*map(self._complete, prompts))
        listed = parse_list(answers[0]) if self._queries else []
        original = shown.strip().casefold()
        queries = [item for item in listed if item.casefold() != original][: self._queries]
        passages = map(parse_passage, answers[len(prompts) - self._passages :])
        return Expansion(tuple(queries), tuple(dict.fromkeys(filter(None, passages))))


_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^[^\S\n]*+```.*$", re.MULTILINE)
_OPENING = re.compile(r"[\[{]")
_MARKER = re.compile(r"^\s*(?:[-*•]+\s|\(?\d{1,2}[.):]\)?\s|(?:query|passage)\s*\d*\s*:)\s*", re.I)
_QUOTES = "\"'“”`*"


def parse_list(answer: str) -> list[str]:
    """The distinct items of a model's list, however it is written: JSON, numbers, bullets, lines.

    A line that ends in a colon is a remark.
    """
    bare = _FENCE.sub("", _THOUGHTS.sub("", answer)).strip()
    items = _json_items(bare) or [_unmarked(line) for line in bare.splitlines()]
    queries = [item for item in items if item and not item.endswith(":")]
    return list(dict.fromkeys(queries))


def parse_passage(answer: str) -> str:
    """The passage of a model's answer, without fences, labels and quotation marks around it."""
    bare = _FENCE.sub("", _THOUGHTS.sub("", answer)).strip()
    return " ".join(_unmarked(bare).split())


def _unmarked(line: str) -> str:
    text = _MARKER.sub("", line).strip()
    quoted = len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES
    return text.strip(_QUOTES).strip() if quoted else text


def _json_items(text: str) -> list[str]:
    """The texts of the first JSON value in an answer, none if there is no such value.

    They are the items of a list, of the list in a dict, or the values of a dict without one.
    """
    start = _OPENING.search(text)
    if start is None:
        return []
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start.start())
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        members = list(value.values())
        value = next((part for part in members if isinstance(part, list)), members)
    parts = (item.values() if isinstance(item, dict) else [item] for item in value)
    firsts = (next((one for one in part if isinstance(one, str)), None) for part in parts)
    return [text.strip() for text in firsts if text is not None]


def feedback_candidates(texts: Sequence[str], languages: Sequence[str | None]) -> list[str]:
    """The terms that feedback may add, to look up their IDF: sorted, each once.

    Of several passages, terms that two of them hold; no stop words, no single characters.
    `languages` are those of the texts, one each.
    """
    bags = [set(_content_terms(*pair)) for pair in zip(texts, languages, strict=True)]
    holders = Counter(term for bag in bags for term in bag)
    return sorted(term for term, count in holders.items() if count > 1 or len(bags) == 1)


def feedback_terms(
    texts: Sequence[str],
    scores: Sequence[float],
    languages: Sequence[str | None],
    idf: Mapping[str, float],
    count: int,
    *,
    known: Collection[str] = (),
) -> tuple[tuple[Term, ...], ...]:
    """The `count` terms that tell the passages apart from the rest of the base, best first.

    A term is worth its share of each passage, weighted by the passage's score, times its IDF
    (a relevance model, as in RM3). The best gets `FEEDBACK_WEIGHT`, others less in proportion.
    Only terms of `idf` come in question, and none of `known`, the query's own.
    """
    above = [max(score, 0.0) for score in scores]
    total = sum(above)
    shares = [score / total for score in above] if total else [1.0] * len(above)
    worth: dict[str, float] = {}
    for text, language, share in zip(texts, languages, shares, strict=True):
        terms = Counter(_content_terms(text, language))
        for term, times in terms.items():
            value = share * times / terms.total() * idf.get(term, 0.0)
            worth[term] = worth.get(term, 0.0) + value
    candidates = [(term, value) for term, value in worth.items() if value > 0 and term not in known]
    best = sorted(candidates, key=lambda pair: (-pair[1], pair[0]))[:count]
    return tuple((Term(term, FEEDBACK_WEIGHT * (value / best[0][1])),) for term, value in best)


def _content_terms(text: str, language: str | None) -> list[str]:
    stops = stop_words(language)
    pairs = zip(words(text), analyze(text, language), strict=True)
    return [term for word, term in pairs if len(term) > 1 and fold(word) not in stops]
