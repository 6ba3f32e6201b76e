"""The session in the README is real: run again, it prints the same but for numbers and ids."""

from __future__ import annotations

import re
import shlex
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from lagotto.cli import main

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"
NOTES = (
    "lagotto-romagnolo.md",
    "truffle-species.md",
    "truffle-soil.md",
    "sqlite-result-codes.md",
    "safe-cooking-temperatures.html",
    "tartufo-t200-manual.pdf",
)


def session() -> list[tuple[str, str]]:
    """Commands and what they print."""
    text = README.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = re.split(r"^\$ lagotto ", block, flags=re.MULTILINE)[1:]
    return [(command.split("\n", 1)[0], command.split("\n", 1)[1]) for command in commands]


def steady(output: str) -> list[str]:
    """The lines without ids, times and the last digits of scores."""
    plain = re.sub(r"document [0-9a-f]{32}", "document ID", output)
    plain = re.sub(r"\d+\.\d+", "N", plain)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


def test_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAGOTTO_KB", raising=False)
    (tmp_path / "notes").mkdir()
    with as_file(files("lagotto.demo") / "corpus") as corpus:
        for name in NOTES:
            shutil.copy(corpus / name, tmp_path / "notes")
    for command, expected in session():
        assert main(shlex.split(command)) == 0
        assert steady(capsys.readouterr().out) == steady(expected)
