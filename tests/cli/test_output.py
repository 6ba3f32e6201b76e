"""Nothing that a document says is obeyed by the terminal that shows it."""

from __future__ import annotations

import json

import pytest

from lagotto.cli.output import one_line, print_json, printable

HOSTILE = "a\x1b[31mred\x9b31m\u202egnp.exe\u2066x\u200f"


def test_control_characters_are_replaced() -> None:
    assert printable(HOSTILE) == "a\ufffd[31mred\ufffd31m\ufffdgnp.exe\ufffdx\ufffd"
    assert one_line("two\nlines\t\x00") == "two lines \ufffd"


def test_json_has_them_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": HOSTILE, "plain": "naïve 東京"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"text": HOSTILE, "plain": "naïve 東京"}
    assert printable(printed) == printed
    assert "東京" in printed
