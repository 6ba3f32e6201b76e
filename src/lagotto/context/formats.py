r"""Passages as one text for a prompt: numbered, Markdown or XML.

Whatever a document says, it can't break the frame. A line of a passage that looks like the head
of another one gets a backslash, a fence is longer than any in the text, `<` and `&` are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import Literal, get_args

from lagotto.context.passages import PackPassage
from lagotto.errors import UnknownNameError

PackFormat = Literal["plain", "markdown", "xml"]

CUT = " …"
"""What a truncated passage ends with."""
CUT_BEFORE = "… "
"""What a passage starts with that lacks the beginning of a chunk."""

_LINE_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    r"\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
"""Unicode's Default_Ignorable_Code_Point, control characters, and combining marks."""
_BACKTICKS = re.compile("`+")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*\[\]<])")
_GAP = rf"(?:[^\S{_LINE_BREAK}]|[{_INVISIBLE}])*+"
_head_like = cache(partial(re.compile, rf"(^|[{_LINE_BREAK}])({_GAP})\[(?={_GAP}(?:\d{_GAP})++\])"))
"""What looks like the head of a passage, also with characters among it that take no room."""


def block(marker: int, passage: PackPassage, *, format: PackFormat) -> str:  # noqa: A002
    label = " ".join(passage.label.split())
    before = CUT_BEFORE if passage.starts_cut else ""
    text = passage.context + before + passage.text.rstrip() + (CUT if passage.truncated else "")
    if format == "markdown":
        longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
        fence = "`" * max(3, longest + 1)
        escaped = _MARKDOWN.sub(r"\\\1", label)
        return f"**[{marker}]** {escaped}\n\n{fence}\n{text}\n{fence}"
    if format == "xml":
        from xml.sax.saxutils import escape, quoteattr  # imports a parser and URL openers

        label, text = (_NOT_XML.sub("\ufffd", part) for part in (label, text))
        head = f'<passage marker="[{marker}]" source={quoteattr(label)}>'
        return f"{head}\n{escape(text)}\n</passage>"
    if "[" in text:
        text = _head_like().sub(r"\1\2\\[", text)
    return f"[{marker}] {label}\n{text}"


def join_blocks(parts: Sequence[str], *, format: PackFormat) -> str:  # noqa: A002
    if format not in get_args(PackFormat):
        names = ", ".join(get_args(PackFormat))
        raise UnknownNameError(f'unknown format "{format}"; available: {names}')
    if format == "xml" and parts:
        return "\n".join(["<passages>", *parts, "</passages>"])
    return "\n\n".join(parts)
