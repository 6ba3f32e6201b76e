"""Subtitles, SRT and WebVTT: the spoken text, in sections named by their time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from lagotto.documents import storable
from lagotto.errors import CorruptSourceError, EmptySourceError
from lagotto.readers.base import GAP, Draft, HeadingMark, Source, one_line, sections
from lagotto.readers.decode import decode
from lagotto.readers.formats import draft_reader

TIMING = re.compile(
    r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}[ \t]{1,9}-->[ \t]{1,9}"
    r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
)
VOICE = re.compile(r"<v(?:\.[^\s<>]{0,99})?[ \t]++([^<>]*+)>")
TAG = re.compile(r"<[^<>]*+>|\{\\[^{}\\]*+\}")
NOT_CUES = ("\ufeffWEBVTT", "WEBVTT", "NOTE", "STYLE", "REGION")
"""First words of blocks that are not spoken."""

SECTION_SECONDS = 120
PAUSE_SECONDS = 4


class Cue(NamedTuple):
    """What is said from one second to another."""

    start: int
    end: int
    lines: list[str]


@draft_reader("subtitles")
def read_subtitles(source: Source, limit: int) -> Draft:
    """Read the text of the cues, without markup, numbers and timings.

    Every two minutes a section begins whose title is the time, such as `0:12:40`, so that a
    passage cites when it is said. A long pause begins a paragraph; `<v Ann>` becomes `Ann: `. A
    line that is repeated by the next cue, as rolling captions do, is there once.
    """
    source_text = storable(decode(source.read(limit=limit)))
    if not source_text.strip():
        raise EmptySourceError(source.label, "empty file; leave it out")
    cues = list(_cues(source_text))
    if not cues and not source_text.lstrip("\ufeff").startswith("WEBVTT"):
        raise CorruptSourceError(source.label, "no cue timings in it: neither SRT nor WebVTT")
    text, marks = _joined(cues)
    headings = sections(marks, end=len(text))
    return Draft(text=text, headings=headings, title=source.stem)


def _cues(text: str) -> Iterator[Cue]:
    cue: Cue | None = None
    since_blank = 0
    skipping = False
    for line in text.split("\n"):
        if timing := TIMING.match(line.strip()):
            if cue is not None:
                if since_blank == 1 and cue.lines:
                    cue.lines.pop()  # the number or name of this cue
                yield cue
            hours, minutes, seconds, *end = (int(number or 0) for number in timing.groups())
            start = hours * 3600 + minutes * 60 + seconds
            last = end[0] * 3600 + end[1] * 60 + end[2]
            cue, skipping = Cue(start, last, []), False
        elif since_blank == 0 and line.partition(" ")[0].rstrip() in NOT_CUES:
            skipping = True
        elif line.strip() and cue is not None and not skipping:
            cue.lines.append(line)
        since_blank = since_blank + 1 if line.strip() else 0
        skipping = skipping and since_blank > 0
    if cue is not None:
        yield cue


def _joined(cues: list[Cue]) -> tuple[str, list[HeadingMark]]:
    marks: list[HeadingMark] = []
    text = last_line = ""
    before = 0
    section = -1
    for cue in cues:
        for cue_line in cue.lines:
            line = one_line(unescape(TAG.sub("", VOICE.sub(r"\1: ", cue_line))))
            if not line or line == last_line:
                continue
            last_line = line
            opens = cue.start // SECTION_SECONDS != section
            pause = opens or cue.start - before >= PAUSE_SECONDS
            text += (GAP if pause else "\n") if text else ""
            if opens:
                section = cue.start // SECTION_SECONDS
                minutes, seconds = divmod(cue.start, 60)
                time = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
                marks.append(HeadingMark(len(text), 1, time))
            text += line
            before = cue.end
    return text, marks
