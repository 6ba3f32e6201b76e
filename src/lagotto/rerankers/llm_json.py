"""Finding JSON objects in what a language model wrote, also where it is not quite JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_TEXT = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
_NUMBER = r"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_CONSTANT = r"(?:true|false|null|True|False|None)\b"
_MEMBER = rf"(?P<key>{_TEXT}|\w++)\s*+:\s*+(?P<value>{_TEXT}|{_NUMBER}|{_CONSTANT})\s*+"
_PLAIN_MEMBER = re.sub(r"\?P<\w+>", "?:", _MEMBER)

_OBJECT = re.compile(rf"\{{\s*+(?:{_PLAIN_MEMBER}(?:,\s*+|(?=\}})))++\}}", re.DOTALL)
_MEMBERS = re.compile(_MEMBER, re.DOTALL)
_ESCAPE = re.compile(r'\\(.)|"', re.DOTALL)
_CONSTANTS = {"true": True, "false": False}


def flat_objects(text: str) -> Iterator[dict[str, object]]:
    """The objects in `text` that hold texts, numbers and constants only, in their order.

    It doesn't matter what stands around them: prose, code fences, lists, objects, or a list that
    breaks off. Single quotes, bare keys, line breaks in texts, stray backslashes, a comma at the
    end and Python's constants are understood. An object in a text of another one is text.
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
    """The text that a literal in either kind of quotes stands for; ValueError if none."""
    text: str = json.loads('"' + _ESCAPE.sub(_mended, literal[1:-1]) + '"', strict=False)
    return text


def _mended(match: re.Match[str]) -> str:
    """An escape, or a quote mark that needs one, as JSON has it."""
    escaped = match[1]
    if escaped is None:
        return '\\"'
    if escaped == "'":
        return "'"
    return match[0] if escaped in '"\\/bfnrtu' else "\\\\" + escaped
