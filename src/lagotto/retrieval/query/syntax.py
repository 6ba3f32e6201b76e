"""Query syntax: from a query as typed, in one of five syntaxes, to a full-text query."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import islice
from typing import TypeVar

from lagotto.errors import QueryError
from lagotto.indexes.bm25 import repeated
from lagotto.indexes.text_query import Either, Every, Match, Phrase, Prefix, Term, Without, Word
from lagotto.prefs import FtsMode
from lagotto.terms import MAX_QUERY_TERMS, analyze, compounds, content_terms, query_terms
from lagotto.terms.words import UNSPACED, runs


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What a query asks for.

    `words` score: those that it wants, without stop words except where a part has nothing else.
    `where` is the whole condition that a chunk must meet, None if there is none. `excluded` is
    what no chunk of any leg may hold: the negations that `where` demands in any case. `text` is
    the query without its operators and without what it rejects, for an embedder.
    """

    words: tuple[tuple[Term, ...], ...]
    where: Match | None
    excluded: Match | None
    text: str

    @property
    def has_text(self) -> bool:
        """Whether there is a word to search for; a query may be empty, or only reject."""
        return bool(runs(self.text))


def parse_query(
    text: str,
    mode: FtsMode = "any",
    languages: Sequence[str | None] = (None,),
    *,
    scored: bool = True,
) -> ParsedQuery:
    """Read `text` by the rules of `mode`, over documents in `languages`.

    Without words that are `scored` the query is for vectors alone.

    `any` takes whatever it is as words, of which a chunk may hold any. The others follow
    PostgreSQL: `web` websearch_to_tsquery, `plain` plainto_tsquery, `phrase` phraseto_tsquery,
    `strict` to_tsquery. Only `strict` knows wrong queries: it raises a QueryError.
    """
    reading: Reading = None, text, (text,)
    where, wanted, parts = reading
    if mode == "web":
        where, wanted, parts = _read_web(text, languages)
    elif mode == "plain":
        operands = limited(filter(None, (operand(piece, languages) for piece in pieces(text))))
        stops = stop_words_in(text, languages)
        content = [one for one in operands if one.match not in stops] or operands
        where = every(one.match for one in content) if content else None
        parts = tuple(one.text for one in content)
    elif mode == "phrase" and (whole := operand(text, languages)):
        where = whole.match
    elif mode == "strict":
        where, wanted, parts = _read_strict(text, languages)
    demanded = where.parts if isinstance(where, Every) else (where,)
    rejected = [part.part for part in demanded if isinstance(part, Without)]
    excluded = either(rejected) if rejected else None
    words = _scored(wanted, parts, languages) if scored else ()
    return ParsedQuery(words, where, excluded, wanted)


def _scored(
    text: str, parts: Sequence[str], languages: Sequence[str | None]
) -> tuple[tuple[Term, ...], ...]:
    stops = stop_words_in(text, languages)
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for part in parts:
        words = query_terms(part, languages)
        for word in [word for word in words if Word(word.variants) not in stops] or words:
            counts[word.variants] += word.count
    for name in (name for part in parts for name in compounds(part)):
        counts[name,] += 1
    return tuple(
        weighed(variants, times) for variants, times in islice(counts.items(), MAX_QUERY_TERMS)
    )


def with_synonyms(
    parsed: ParsedQuery, synonyms: Mapping[str, Sequence[str]], languages: Sequence[str | None]
) -> ParsedQuery:
    """The query with what its words and phrases stand for.

    A word of a word's is one of its alternatives, and so shares its IDF. BM25 has no phrases: the
    content words of a phrase are words of their own, which together weigh as much as one. In
    conditions it is a phrase, as another way to meet what the word demands.
    """
    same: dict[str, dict[str, None]] = {}
    conditions: dict[str, list[Match]] = {}
    added: dict[tuple[str, ...], float] = {}
    for phrase, others in synonyms.items():
        own = query_terms(phrase, languages)
        for other in others:
            synonym = query_terms(other, languages)
            if len(own) == len(synonym) == 1:
                for term in own[0].variants:
                    same.setdefault(term, {}).update(dict.fromkeys(synonym[0].variants))
            else:
                content = content_terms(synonym)
                for word in content:
                    added[word.variants] = max(added.get(word.variants, 0), 1 / len(content))
            if len(own) == 1 and (alternative := operand(other, languages)):
                for term in own[0].variants:
                    conditions.setdefault(term, []).append(alternative.match)
    words = tuple(
        word + tuple(Term(name, word[0].weight) for name in _others(word, same))
        for word in parsed.words
    )
    known = {term.text for word in words for term in word}
    words += tuple(
        tuple(Term(name, weight) for name in variants)
        for variants, weight in added.items()
        if known.isdisjoint(variants)
    )
    where = parsed.where and _widened(parsed.where, conditions)
    return replace(parsed, words=words, where=where)


def _others(word: Sequence[Term], same: Mapping[str, Iterable[str]]) -> list[str]:
    """The terms that stand for those of a word, without its own."""
    names = dict.fromkeys(name for term in word for name in same.get(term.text, ()))
    return [name for name in names if name not in {term.text for term in word}]


def _widened(match: Match, others: Mapping[str, Sequence[Match]]) -> Match:
    """The condition with other ways to meet what it demands; what it rejects stays as it is."""
    if isinstance(match, Word):
        synonyms = dict.fromkeys(other for term in match.terms for other in others.get(term, ()))
        return either((match, *synonyms)) if synonyms else match
    if isinstance(match, Every | Either):
        return type(match)(tuple(_widened(part, others) for part in match.parts))
    return match


Reading = tuple[Match | None, str, tuple[str, ...]]
"""A query by the rules of a syntax: its condition, None for an empty one, what it wants, and what
of that the condition asks for and can score."""


def weighed(variants: Sequence[str], times: int) -> tuple[Term, ...]:
    """The terms of a word, weighted by how often the query repeats it."""
    weight = repeated(times)
    return tuple([Term(variant, weight) for variant in variants])


def _read_web(text: str, languages: Sequence[str | None]) -> Reading:
    """Any text, read as a query.

    `or` binds weaker than the words beside it. At the end, at the beginning or after another one
    it is a word. Stop words outside quotations make no condition unless nothing else is wanted.
    """
    operands = ((operand(source, languages), source, negated) for source, negated in _sources(text))
    items = limited(_Item(one, source, negated) for one, source, negated in operands if one)
    alternatives: list[list[_Item]] = [[]]
    for number, item in enumerate(items, start=1):
        is_or = item.source.lower() == "or" and not item.negated
        if is_or and alternatives[-1] and number < len(items):
            alternatives.append([])
        else:
            alternatives[-1].append(item)
    items = [item for items in alternatives for item in items]
    wanted = [item for item in items if not item.negated]
    stops = stop_words_in(text, languages)
    small = (item for item in items if item.operand.match in stops)
    dropped = {item for item in small if not quoted_in(item.source).fullmatch(item.source)}
    if dropped.issuperset(wanted):  # nothing else is wanted
        dropped.difference_update(wanted)
    conditions = [
        every(item.match for item in items if item not in dropped)
        for items in alternatives
        if not dropped.issuperset(items)
    ]
    sources = tuple(item.source for item in wanted if item not in dropped)
    where = either(conditions) if conditions else None
    return where, " ".join(item.source for item in wanted), sources


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of the query; `source` has its quotation marks."""

    operand: Operand
    source: str
    negated: bool

    def __len__(self) -> int:
        return len(self.operand)

    @property
    def match(self) -> Match:
        return Without(self.operand.match) if self.negated else self.operand.match


def _sources(text: str) -> Iterator[tuple[str, bool]]:
    """Quotations and words in order, and whether a minus stands before each."""
    start = 0
    for quoted in quoted_in(text).finditer(text):
        before = text[start : quoted.start()]
        yield from _words(before)
        yield quoted.group(), before[-2:].lstrip() == "-"
        start = quoted.end()
    yield from _words(text[start:])


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """A minus rejects the word that it touches; two of them begin an option such as --all."""
    for chunk in text.split():
        bare = chunk.lstrip("([{")
        negated = bare.startswith("-") and not bare.startswith("--")
        for index, piece in enumerate(pieces(bare)):
            yield piece.lstrip("-") if negated else piece, negated and index == 0


QUOTATION_MARKS = '"“”„«»「」『』'

# No quotation holds another mark of its own kind, so that a page of opening marks takes linear
# time. A mark right behind a letter or digit opens nothing: 24" is a length.
QUOTED = (
    rf"(?<![^\W{UNSPACED}])(?:\"[^\"]*\"|”[^“”„]*”)"
    r"|“[^“”\"]*[”\"]|„[^„“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』"
)
"""A quotation with its marks, one on either side, as a regular expression."""

CONNECTORS = frozenset("_-./@#&+\\\u2010\u2011")
"""What holds the parts of an identifier together: foo_bar, a/b, AT&T, C++."""

Sizable = TypeVar("Sizable", bound=Sized)

_quoted = cache(partial(re.compile, QUOTED))
_BREAK = re.compile(r"-{2,}|\.{2,}")
_NOTHING = re.compile(r"(?!)")


def quoted_in(text: str) -> re.Pattern[str]:
    """Matches the quotations of `text`; compiled only if there are marks, as it takes a while."""
    return _quoted() if any(mark in text for mark in QUOTATION_MARKS) else _NOTHING


@dataclass(frozen=True, slots=True)
class Operand:
    """A word or a phrase of a query: `text` as written, its terms in each of the languages."""

    text: str
    variants: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.variants[0])

    @property
    def match(self) -> Word | Phrase:
        """A chunk that holds it, in one of the languages."""
        distinct = tuple(dict.fromkeys(self.variants))
        if len(self) == 1:
            return Word(tuple(term for (term,) in distinct))
        return Phrase(distinct)


def operand(text: str, languages: Sequence[str | None]) -> Operand | None:
    """What `text` says, its terms in order; None if there is no word in it.

    Of a longer text the first `MAX_QUERY_TERMS` terms count.
    """
    tags = tuple(languages) or (None,)
    variants = tuple(tuple(analyze(text, tag)[:MAX_QUERY_TERMS]) for tag in tags)
    return Operand(text, variants) if variants[0] else None


def pieces(text: str) -> list[str]:
    """The words of `text` as written, identifiers whole, without the punctuation around."""
    unbroken = _BREAK.sub(" ", text)
    return "".join(" " if _separates(char) else char for char in unbroken).split()


@lru_cache(maxsize=4096)
def _separates(char: str) -> bool:
    if char in CONNECTORS or runs(char):
        return False
    category = unicodedata.category(char)  # marks and invisible characters stand inside of words
    return category != "Cf" and not category.startswith("M")


def limited(items: Iterable[Sizable]) -> list[Sizable]:
    """As many of the items, from the first on, as have `MAX_QUERY_TERMS` terms in all."""
    head: list[Sizable] = []
    left = MAX_QUERY_TERMS
    for item in items:
        left -= len(item)
        if left < 0:
            break
        head.append(item)
    return head


def stop_words_in(text: str, languages: Sequence[str | None]) -> frozenset[Word]:
    """The stop words of the language that `text` seems to be in, as far as they occur in it."""
    terms = query_terms(text, languages)
    content = {term.variants for term in terms if not term.stop}
    return frozenset(Word(term.variants) for term in terms if term.variants not in content)


def _junction(kind: type[Every] | type[Either], parts: Iterable[Match]) -> Match:
    """All of the parts or one of them, each once."""
    flat: dict[Match, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else kind(tuple(flat))


every, either = partial(_junction, Every), partial(_junction, Either)


MOST_NESTED = 50
"""Parentheses within parentheses."""

SYNONYMS = {"AND": "&", "OR": "|", "NOT": "!"}

_TOKEN = re.compile(
    rf"""
      (?P<operator> <-> | [&|!()] )
    | (?P<quoted> ' (?: [^'] | '' )* ' | {QUOTED} ) (?P<label> : [A-Za-z*]+ )?
    | (?P<word> [^\s&|!()<>'{QUOTATION_MARKS}] [^\s&|!()<>{QUOTATION_MARKS}]* )
    """,
    re.VERBOSE,
)
_WEIGHTS = re.compile(r":[A-D*]+\Z")
_INK = re.compile(r"\S")
_OPERATOR = re.compile(r"<[^\s<>]*+>|.")

Node = Operand | Match


@dataclass(frozen=True, slots=True)
class _Token:
    """An operator, or else the node of a word, a phrase or a prefix; `text` as written."""

    position: int
    text: str
    operator: str | None = None
    node: Node | None = None


def _read_strict(query: str, languages: Sequence[str | None]) -> Reading:
    """An expression, read; a QueryError if it breaks the rules. A prefix can't score."""
    parser = _Parser(query, _tokens(query, languages))
    where = parser.whole()
    words = (token.text for token in parser.wanted if isinstance(token.node, Operand))
    return where, " ".join(token.text for token in parser.wanted), tuple(words)


def _tokens(query: str, languages: Sequence[str | None]) -> list[_Token]:
    tokens: list[_Token] = []
    end = terms = 0
    while ink := _INK.search(query, end):
        match = _TOKEN.match(query, ink.start())
        if match is None:
            raise QueryError(query, ink.start(), _unreadable(query, ink.start()))
        position, end, text = match.start(), match.end(), match.group()
        if operator := match["operator"] or SYNONYMS.get(text):
            tokens.append(_Token(position, text, operator))
            continue
        label = match["label"] or ""
        if match["word"] and (weights := _WEIGHTS.search(text)):
            label = weights.group()
        bare = text[: len(text) - len(label)]
        one = operand(bare, languages)
        if one is None:
            raise QueryError(query, position, f"there is no letter or digit in {bare}")
        terms += len(one)
        if terms > MAX_QUERY_TERMS:
            problem = f"the query has more than {MAX_QUERY_TERMS} words; leave some out"
            raise QueryError(query, position, problem)
        if bare.endswith("*") and not label:
            raise QueryError(query, position + len(bare) - 1, "a prefix is written as word:*")
        if label and label != ":*":
            problem = f"{label} is not supported, only the prefix sign :* is; quote a colon"
            raise QueryError(query, position + len(bare), problem)
        if label and len(one) > 1:
            problem = f":* needs a single word before it, not the {len(one)} of {one.text}"
            raise QueryError(query, position + len(bare), problem)
        prefix = either(Prefix(term) for (term,) in one.variants) if label else None
        tokens.append(_Token(position, bare, node=prefix or one))
    return tokens


def _unreadable(query: str, position: int) -> str:
    char = query[position]
    if char in "<>":
        operator = _OPERATOR.match(query, position)
        shown = operator.group() if operator else char
        return f"{shown} is not an operator; <-> joins adjacent words, other distances don't exist"
    if char == "'" or char in QUOTATION_MARKS:
        return f"the quotation that begins with {char} does not end"
    return f"{char!r} is not expected here"


class _Parser:
    """Recursive descent; of the operators ! binds most tightly, then <->, & and last |."""

    def __init__(self, query: str, tokens: Sequence[_Token]) -> None:
        self._query = query
        self._tokens = tokens
        self._index = 0
        self._depth = 0
        self._negated = False
        self.wanted: list[_Token] = []

    def whole(self) -> Match:
        if not self._tokens:
            raise QueryError(self._query, 0, "the query is empty; expected a word")
        node = self._alternatives()
        token = self._peek()
        if token and token.operator == ")":
            raise QueryError(self._query, token.position, "there is no ( for this )")
        self._expect_operator()
        return _match(node)

    def _alternatives(self) -> Node:
        return self._row("|", lambda: self._row("&", self._sequence, every), either)

    def _row(
        self, operator: str, part: Callable[[], Node], joined: Callable[[list[Match]], Match]
    ) -> Node:
        parts = [part()]
        while self._taken(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else joined(list(map(_match, parts)))

    def _sequence(self) -> Node:
        node = self._negation()
        while arrow := self._taken("<->"):
            follower = self._negation()
            if not (isinstance(node, Operand) and isinstance(follower, Operand)):
                problem = "<-> joins only words and quoted phrases, nothing with ! | & or :*"
                raise QueryError(self._query, arrow.position, problem)
            pairs = zip(node.variants, follower.variants, strict=True)
            joined = tuple(first + second for first, second in pairs)
            node = Operand(f"{node.text} {follower.text}", joined)
        return node

    def _negation(self) -> Node:
        before = self._negated
        while self._taken("!"):
            self._negated = not self._negated
        odd = self._negated != before
        node = self._primary()
        self._negated = before
        if not odd:
            return node
        match = _match(node)
        return match.part if isinstance(match, Without) else Without(match)

    def _primary(self) -> Node:
        token = self._peek()
        if token is None:
            raise QueryError(self._query, len(self._query), "expected a word after this")
        self._index += 1
        if token.operator == "(":
            self._depth += 1
            if self._depth > MOST_NESTED:
                problem = f"parentheses are nested more than {MOST_NESTED} deep"
                raise QueryError(self._query, token.position, problem)
            node = self._alternatives()
            self._depth -= 1
            if not self._taken(")"):
                self._expect_operator()
                raise QueryError(self._query, token.position, "this ( is not closed; expected a )")
            return node
        if token.node is None:
            raise QueryError(self._query, token.position, f"expected a word before {token.text}")
        if not self._negated:
            self.wanted.append(token)
        return token.node

    def _expect_operator(self) -> None:
        if token := self._peek():
            problem = f"expected an operator (& | <->) before {token.text}"
            raise QueryError(self._query, token.position, problem)

    def _peek(self) -> _Token | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _taken(self, operator: str) -> _Token | None:
        token = self._peek()
        if token is None or token.operator != operator:
            return None
        self._index += 1
        return token


def _match(node: Node) -> Match:
    return node.match if isinstance(node, Operand) else node
