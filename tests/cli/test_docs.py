"""docs/cli.md and the commands say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperCommand

from lagotto import errors
from lagotto.cli import UNEXPECTED
from lagotto.cli.app import COMMANDS, Commands, app
from lagotto.cli.options import INTERRUPTED
from tests.cli.running import run

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS: dict[str, str] = dict(
    re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
)
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
GROUP = typer.main.get_command(app)
BEFORE = {"--verbose", "-v", "--kb", "--embedder"}
"""Options that are described once; a table has them where they mean something else."""


def command_of(name: str) -> TyperCommand:
    assert isinstance(GROUP, Commands)
    command = GROUP.get_command(None, name)
    assert command is not None
    return command


def options_of(parameters: Sequence[object]) -> set[str]:
    return {
        name
        for parameter in parameters
        for name in getattr(parameter, "opts", [])
        if name.startswith("-")
    }


def section_of(command: str) -> str:
    (title,) = [title for title in SECTIONS if title.split()[:2] == ["lagotto", command]]
    return SECTIONS[title]


def test_every_command_has_a_section_and_the_other_way_round() -> None:
    documented = {title.split()[1] for title in SECTIONS if title.startswith("lagotto ")}
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_its_table_and_the_other_way_round(name: str) -> None:
    rows = [line.split("|")[1] for line in section_of(name).splitlines() if line.startswith("|")]
    documented = {option for row in rows for option in OPTION.findall(row)} - {"---"}
    command = command_of(name)
    assert documented - BEFORE == options_of(command.params) - {"--help", *BEFORE}


def test_the_list_of_commands_cuts_no_sentence() -> None:
    for name in COMMANDS:
        assert not command_of(name).get_short_help_str(limit=65).endswith("..."), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_has_help(name: str) -> None:
    command = command_of(name)
    assert not [item.name for item in command.params if not getattr(item, "help", None)]


def test_every_exit_code_is_listed() -> None:
    codes_column = re.compile(r"^\| (\d+) \|", re.MULTILINE)
    listed = {int(code) for code in codes_column.findall(SECTIONS["Exit codes"])}
    raised = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {value.exit_code for value in raised if issubclass(value, errors.LagottoError)}
    assert codes | {0, UNEXPECTED, INTERRUPTED} == listed


def test_options_before_the_command() -> None:
    section = SECTIONS["Options before the command"]
    assert options_of(list(GROUP.params)) - {"--help"} <= set(OPTION.findall(section))


def example_of(command: str) -> Any:
    (example,) = re.findall(r"^```json\n(.*?)^```", section_of(command), re.MULTILINE | re.DOTALL)
    return json.loads(example)


def keys_of(value: Any) -> set[str]:
    """The fields of a JSON object and, as `outer.inner`, of those in it; lists have one kind."""
    if isinstance(value, list):
        return keys_of(value[0]) if value else set()
    if not isinstance(value, dict):
        return set()
    nested = {f"{name}.{key}" for name in value for key in keys_of(value[name])}
    return {*value, *nested}


@pytest.mark.slow
def test_json_has_the_fields_shown(base: Path, tmp_path: Path) -> None:
    query = "when does the white truffle ripen"
    commands: dict[str, list[str | Path]] = {
        "add": [tmp_path / "broken.pdf", tmp_path / "empty.txt"],
        "retrieve": [query],
        "list": [],
        "info": [],
        "doctor": [],
        "copy": [base, tmp_path / "copy.db"],
        "presets": [],
        "models": [],
    }
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    (tmp_path / "empty.txt").write_bytes(b"")
    given_names = re.compile(r"metadata\.|collections\.|counts\.")  # names that users choose
    for name, arguments in commands.items():
        options: list[str | Path] = [] if name in {"copy", "presets", "models"} else ["--kb", base]
        printed = run(*options, name, *arguments, "--json").json
        shown, real = keys_of(example_of(name)), keys_of(printed)
        differing = {key for key in shown ^ real if not given_names.search(key)}
        assert differing == set(), name


def test_examples_of_json_are_json() -> None:
    examples = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        json.loads(example)
