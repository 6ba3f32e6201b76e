"""Nothing that a document says is obeyed by the terminal that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagotto.cli.output import document_name, one_line, print_json, printable

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


def test_the_name_of_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path from here before a short id; an id that somebody chose stays whole."""
    monkeypatch.chdir(tmp_path)
    hashed = "14258c050ef1ee7786d4b384592a223c"
    below = (tmp_path / "notes" / "a.md").as_posix()
    assert document_name(below, hashed) == "notes/a.md  14258c05"
    assert document_name("/elsewhere/a.md", "chosen") == "/elsewhere/a.md  chosen"
    assert document_name("", hashed) == "14258c05"
