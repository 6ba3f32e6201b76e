from __future__ import annotations

import pytest

from lagotto.errors import CorruptSourceError, EmptySourceError
from tests.readers.samples import SRT, VTT, only


def test_sections_are_named_by_their_time() -> None:
    document = only(SRT, "film.srt")
    assert (document.title, document.source) == ("film", "film.srt")
    shown = [(item.title, document.text[item.start : item.end]) for item in document.headings]
    assert shown == [
        ("0:00:01", "Here, kitty!\nDinner & sleep.\n\n"),
        ("1:02:00", "Good night.\n1984"),
    ]


PAUSES = "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\nline {n}\n\n" for n in (1, 2, 9))
ROLLING = "WEBVTT\n\n00:01.000 --> 00:02.000\none\n\n00:02.000 --> 00:03.000\none\ntwo\n"


@pytest.mark.parametrize(
    ("written", "name", "text"),
    [
        (VTT, "film.vtt", "Ann: Here, kitty!\nBob: Dinner.\nNow."),
        (PAUSES, "a.srt", "line 1\nline 2\n\nline 9"),
        (ROLLING, "a.vtt", "one\ntwo"),
        (SRT, "film.srt", "Here, kitty!\nDinner & sleep.\n\nGood night.\n1984"),
    ],
    ids=["voices", "a long pause begins a paragraph", "rolling captions", "srt"],
)
def test_the_spoken_text(written: str, name: str, text: str) -> None:
    assert only(written, name).text == text


def test_what_has_no_cues() -> None:
    with pytest.raises(CorruptSourceError, match="no cue timings"):
        only("just words", "a.srt")
    with pytest.raises(EmptySourceError):
        only("WEBVTT\n\nNOTE nothing\n", "a.vtt")


def test_spoken_lines_may_begin_like_blocks_that_are_not_spoken() -> None:
    written = (
        "1\n00:00:01,000 --> 00:00:02,000\nNOTE that STYLE matters.\nSTYLE is all.\n\n"
        "2\n00:00:02,500 --> 00:00:04,000\nNOTEBOOKS are cheap.\n"
    )
    said = "NOTE that STYLE matters.\nSTYLE is all.\nNOTEBOOKS are cheap."
    assert only(written, "talk.srt").text == said
