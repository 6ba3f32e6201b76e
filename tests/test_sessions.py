"""The sessions in README and docs are real: run again, they print the same but for numbers and ids.

A page has one session, in any number of `console` blocks. That of README starts in a folder with
`notes/`, some of the documents of the demo; that of getting started copies them itself.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from lagotto.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "getting-started.md")
NOTES = (
    "lagotto-romagnolo.md",
    "truffle-species.md",
    "truffle-soil.md",
    "sqlite-result-codes.md",
    "safe-cooking-temperatures.html",
    "tartufo-t200-manual.pdf",
)


def session(page: Path) -> list[tuple[str, str]]:
    """Commands and what they print."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]
    return [(command.split("\n", 1)[0], command.split("\n", 1)[1]) for command in commands]


def steady(output: str) -> list[str]:
    """The lines without ids, hashes, folders, times and the last digits of scores."""
    plain = re.sub(r"[0-9a-f]{32}|(?<=  )[0-9a-f]{8}$", "ID", output, flags=re.MULTILINE)
    plain = re.sub(r"~[0-9a-f]{8}", "~HASH", plain)
    plain = re.sub(r"\S*/notes/", "notes/", plain)
    plain = re.sub(r"\d{4}-\d\d-\d\d", "DATE", plain)
    plain = re.sub(r"\d+(\.\d+)?", "N", plain)
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


def copy_notes(folder: Path) -> None:
    folder.mkdir()
    with as_file(files("lagotto.demo") / "corpus") as corpus:
        for name in NOTES:
            shutil.copy(corpus / name, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_session(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAGOTTO_KB", raising=False)
    if page.name == "README.md":
        copy_notes(tmp_path / "notes")
    for command, expected in session(page):
        program, *arguments = shlex.split(command)
        if program == "lagotto":
            assert main(arguments) == 0
        else:
            subprocess.run(command, shell=True, check=True)
        assert steady(capsys.readouterr().out) == steady(expected), command
