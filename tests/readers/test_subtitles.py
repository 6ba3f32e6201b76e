from __future__ import annotations

import pytest

from lagotto.errors import CorruptSourceError, EmptySourceError
from tests.readers.samples import SRT, VTT, only


def test_the_spoken_text() -> None:
    assert only(SRT, "film.srt").text == "Here, kitty!\nDinner & sleep.\n\nGood night.\n1984"


def test_sections_are_named_by_their_time() -> None:
    document = only(SRT, "film.srt")
    shown = [(item.title, document.text[item.start : item.end]) for item in document.headings]
    assert shown == [
        ("0:00:01", "Here, kitty!\nDinner & sleep.\n\n"),
        ("1:02:00", "Good night.\n1984"),
    ]


def test_the_file_names_the_film() -> None:
    assert only(SRT, "film.srt").title == "film"


def test_webvtt() -> None:
    assert only(VTT, "film.vtt").text == "Ann: Here, kitty!\nBob: Dinner.\nNow."


def test_a_long_pause_begins_a_paragraph() -> None:
    cues = "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\nline {n}\n\n" for n in (1, 2, 9))
    assert only(cues, "a.srt").text == "line 1\nline 2\n\nline 9"


def test_rolling_captions_say_a_line_once() -> None:
    cues = "00:01.000 --> 00:02.000\none\n\n00:02.000 --> 00:03.000\none\ntwo\n"
    assert only(f"WEBVTT\n\n{cues}", "a.vtt").text == "one\ntwo"


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
