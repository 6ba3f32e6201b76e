"""Parse the verdicts in a language model's answer; nothing in it is trusted unchecked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat, ValidationError

from lagotto.documents import Span, storable
from lagotto.errors import RerankError
from lagotto.rerankers.base import Candidate, ScoreScale, Verdict

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_ALIKE = str.maketrans(
    dict.fromkeys('"`´‘’‚‛“”„‟«»‹›′″', "'") | dict.fromkeys("‐‑‒–—−", "-") | {"\ufeff": " "}
)
_AROUND = " \t\r\n'…"
"""Characters that models put around a quotation, besides dots for omissions."""

_TEXT = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""

_NUMBER = r"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_CONSTANT = r"(?:true|false|null|True|False|None)\b"
_MEMBER = rf"(?P<key>{_TEXT}|(?<!\w)\w++)\s*+:\s*+(?P<value>{_TEXT}|{_NUMBER}|{_CONSTANT})\s*+"
_PLAIN_MEMBER = re.sub(r"\?P<\w+>", "?:", _MEMBER)
_OBJECT = re.compile(rf"\{{\s*+(?:{_PLAIN_MEMBER}(?:,\s*+|(?=\}})))++\}}", re.DOTALL)
_MEMBERS = re.compile(_MEMBER, re.DOTALL)
_ESCAPE = re.compile(r'\\(.)|"', re.DOTALL)
_CONSTANTS = {"true": True, "false": False}


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    choices: list[_Choice]


class _Item(BaseModel):
    id: str
    score: FiniteFloat = Field(validation_alias=AliasChoices("relevance_score", "score"))
    answerability: bool | None = None
    key_evidence: str | None = None


def read_answer(
    answer: object, *, candidates: Mapping[str, Candidate], scale: ScoreScale, model: str
) -> dict[str, Verdict]:
    """Read the valid verdicts in a chat completion, by the ids of the candidates.

    Unknown ids and scores off the scale are ignored. RerankError if no verdict is valid, or if a
    candidate has two, since either could be the one that was meant.
    """
    said = _content(answer, model=model)
    verdicts: dict[str, Verdict] = {}
    for found in flat_objects(said):
        name = found.get("id")
        if not isinstance(name, str) or name not in candidates:
            continue
        if name in verdicts:
            raise RerankError(f"{model} judged the passage {name} twice: {_short(said)}")
        verdict = _verdict(found, candidate=candidates[name], scale=scale)
        if verdict:
            verdicts[name] = verdict
    if not verdicts:
        raise RerankError(f"{model} returned no valid verdict: {_short(said)}")
    return verdicts


def _content(answer: object, *, model: str) -> str:
    """The text of the assistant's message; RerankError if it is empty or a refusal."""
    try:
        message = _Completion.model_validate(answer).choices[0].message
    except (ValidationError, IndexError) as exc:
        raise RerankError(
            f"the answer of {model} is not a chat completion: {_short(answer)}"
        ) from exc
    if not message.content:
        raise RerankError(f"{model} refused to answer: {_short(message.refusal)}")
    return _THINKING.sub("", message.content, count=1)


def _short(said: object) -> str:
    return repr(said)[:200]


def _verdict(
    found: Mapping[str, object], *, candidate: Candidate, scale: ScoreScale
) -> Verdict | None:
    try:
        item = _Item.model_validate(found)
    except ValidationError:
        return None
    if not scale.low <= item.score <= scale.high:
        return None
    quote = item.key_evidence
    return Verdict(
        score=item.score,
        answerable=item.answerability,
        evidence=find_quote(quote, text=candidate.text) if quote else None,
    )


def find_quote(quote: str, *, text: str) -> Span | None:
    """The span of `text` that matches `quote`, or None.

    White space, case, the kind of quote marks and dashes, and dots or quote marks around the
    quotation are ignored.
    """
    bare = storable(quote).translate(_ALIKE).strip(_AROUND)
    words = bare.strip(".").split()
    if not any(sign.isalnum() for sign in bare):
        return None
    pattern = r"\s+".join(map(re.escape, words)) + (r"\.?" if bare.endswith(".") else "")
    match = re.search(pattern, storable(text).translate(_ALIKE), re.IGNORECASE)
    return Span(*match.span()) if match else None


def flat_objects(text: str) -> Iterator[dict[str, object]]:
    """Find the JSON objects in `text` that hold only strings, numbers and constants, in order.

    Anything may surround them: prose, code fences, lists, objects, or a list that breaks off.
    Single quotes, bare keys, line breaks in strings, stray backslashes, trailing commas and
    Python's constants are accepted. An object inside a string of another one is not found.
    """
    for match in _OBJECT.finditer(text):
        members = _MEMBERS.finditer(match[0])
        try:
            yield {_key(member["key"]): _value(member["value"]) for member in members}
        except ValueError:
            continue


def _key(literal: str) -> str:
    return _unquoted(literal) if literal[0] in "\"'" else literal


def _value(literal: str) -> object:
    if literal[0] in "\"'":
        return _unquoted(literal)
    if literal[0].isalpha():
        return _CONSTANTS.get(literal.lower())
    return float(literal)


def _unquoted(literal: str) -> str:
    """The value of a string literal in either kind of quotes; ValueError if it has none."""
    text: str = json.loads('"' + _ESCAPE.sub(_corrected, literal[1:-1]) + '"', strict=False)
    return text


def _corrected(match: re.Match[str]) -> str:
    """A valid JSON escape for an escape or a bare quote mark."""
    escaped = match[1]
    if escaped is None:
        return '\\"'
    if escaped == "'":
        return "'"
    return match[0] if escaped in '"\\/bfnrtu' else "\\\\" + escaped
