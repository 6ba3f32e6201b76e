from __future__ import annotations

import logging
from dataclasses import dataclass, field
from inspect import signature

import pytest

from lagotto.cli.options import for_typer


@dataclass(frozen=True)
class Colours:
    main: str
    others: list[str] = field(default_factory=list)
    bright: bool = False


def test_a_group_stands_for_its_fields() -> None:
    calls: list[tuple[str, Colours, int]] = []

    def paint(what: str, colours: Colours, coats: int = 1) -> None:
        """Paint it."""
        calls.append((what, colours, coats))

    flat = for_typer(paint)
    shown = [str(each) for each in signature(flat).parameters.values()]
    assert shown[:-1] == [
        "what: str", "main: str", "others: list[str] = []", "bright: bool = False", "coats: int = 1"
    ]  # fmt: skip
    assert shown[-1].startswith("verbose: ")
    assert flat.__doc__ == "Paint it."
    flat(what="fence", main="red", others=["blue"], bright=True, coats=2)
    assert calls == [("fence", Colours("red", ["blue"], bright=True), 2)]


def test_the_log_is_shown_if_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        logging.getLogger("lagotto.test").info("under way")

    for_typer(work)(verbose=0)
    assert capsys.readouterr().err == ""
    for_typer(work)(verbose=1)
    assert capsys.readouterr().err.endswith("lagotto.test: under way\n")
