"""The syntax with operators: & | ! <-> and parentheses, as for PostgreSQL's to_tsquery.

A query that breaks the rules is a QueryError that says where, and what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from lagotto.errors import QueryError
from lagotto.indexes.text_query import Match, Prefix
from lagotto.retrieval.query.operands import (
    QUOTATION_MARKS,
    QUOTED,
    Operand,
    Reading,
    either,
    every,
    operand,
    without,
)
from lagotto.terms import MAX_QUERY_TERMS

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


def read_strict(query: str, languages: Sequence[str | None]) -> Reading:
    """An expression, read; a QueryError if it breaks the rules. A prefix can't score."""
    parser = _Parser(query, _Lexer(query, languages).tokens())
    where = parser.whole()
    words = (token.text for token in parser.wanted if isinstance(token.node, Operand))
    return Reading(where, " ".join(token.text for token in parser.wanted), tuple(words))


class _Lexer:
    def __init__(self, query: str, languages: Sequence[str | None]) -> None:
        self._query = query
        self._languages = languages
        self._terms = 0

    def tokens(self) -> list[_Token]:
        found: list[_Token] = []
        end = 0
        while ink := _INK.search(self._query, end):
            match = _TOKEN.match(self._query, ink.start())
            if match is None:
                self._refuse(ink.start())
            found.append(self._token(match))
            end = match.end()
        return found

    def _token(self, match: re.Match[str]) -> _Token:
        position, text = match.start(), match.group()
        operator = match["operator"] or SYNONYMS.get(text)
        if operator:
            return _Token(position, text, operator)
        label = match["label"] or ""
        if match["word"] and (weights := _WEIGHTS.search(text)):
            label = weights.group()
        bare = text[: len(text) - len(label)]
        return _Token(position, bare, node=self._node(bare, label, position))

    def _node(self, text: str, label: str, position: int) -> Node:
        found = operand(text, self._languages)
        if found is None:
            raise QueryError(self._query, position, f"there is no letter or digit in {text}")
        self._terms += len(found)
        if self._terms > MAX_QUERY_TERMS:
            problem = f"the query has more than {MAX_QUERY_TERMS} words; leave some out"
            raise QueryError(self._query, position, problem)
        if text.endswith("*") and not label:
            raise QueryError(self._query, position + len(text) - 1, "a prefix is written as word:*")
        return self._prefix(found, label, position + len(text)) if label else found

    def _prefix(self, found: Operand, label: str, position: int) -> Match:
        if label != ":*":
            problem = f"{label} is not supported, only the prefix sign :* is; quote a colon"
            raise QueryError(self._query, position, problem)
        if len(found) > 1:
            problem = f":* needs a single word before it, not the {len(found)} of {found.text}"
            raise QueryError(self._query, position, problem)
        return either(Prefix(term) for (term,) in found.variants)

    def _refuse(self, position: int) -> NoReturn:
        char = self._query[position]
        if char in "<>":
            operator = _OPERATOR.match(self._query, position)
            shown = operator.group() if operator else char
            problem = (
                f"{shown} is not an operator; <-> joins adjacent words, other distances don't exist"
            )
        elif char == "'" or char in QUOTATION_MARKS:
            problem = f"the quotation that begins with {char} does not end"
        else:
            problem = f"{char!r} is not expected here"
        raise QueryError(self._query, position, problem)


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
        found = self._alternatives()
        token = self._peek()
        if token and token.operator == ")":
            raise QueryError(self._query, token.position, "there is no ( for this )")
        if token:
            self._operator_missing(token)
        return _match(found)

    def _alternatives(self) -> Node:
        return self._row("|", self._conjunction, either)

    def _conjunction(self) -> Node:
        return self._row("&", self._sequence, every)

    def _row(
        self, operator: str, part: Callable[[], Node], joined: Callable[[list[Match]], Match]
    ) -> Node:
        parts = [part()]
        while self._taken(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else joined(list(map(_match, parts)))

    def _sequence(self) -> Node:
        found = self._negation()
        while arrow := self._taken("<->"):
            follower = self._negation()
            if not (isinstance(found, Operand) and isinstance(follower, Operand)):
                problem = "<-> joins only words and quoted phrases, nothing with ! | & or :*"
                raise QueryError(self._query, arrow.position, problem)
            found = found.followed_by(follower)
        return found

    def _negation(self) -> Node:
        before = self._negated
        while self._taken("!"):
            self._negated = not self._negated
        odd = self._negated != before
        found = self._primary()
        self._negated = before
        return without(_match(found)) if odd else found

    def _primary(self) -> Node:
        token = self._peek()
        if token is None:
            raise QueryError(self._query, len(self._query), "expected a word after this")
        self._index += 1
        if token.operator == "(":
            return self._group(token)
        if token.node is None:
            raise QueryError(self._query, token.position, f"expected a word before {token.text}")
        if not self._negated:
            self.wanted.append(token)
        return token.node

    def _group(self, opening: _Token) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTED:
            problem = f"parentheses are nested more than {MOST_NESTED} deep"
            raise QueryError(self._query, opening.position, problem)
        found = self._alternatives()
        self._depth -= 1
        if self._taken(")"):
            return found
        if token := self._peek():
            self._operator_missing(token)
        raise QueryError(self._query, opening.position, "this ( is not closed; expected a )")

    def _operator_missing(self, token: _Token) -> NoReturn:
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
