"""`doctor`: checks a knowledge base and says what to run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from lagotto.cli.connect import check_exists, open_store
from lagotto.cli.options import DEFAULT_KB, AsJson, Kb
from lagotto.cli.output import print_json, printable
from lagotto.errors import StoreError

if TYPE_CHECKING:
    from lagotto.indexes.base import Finding


def doctor(kb: Kb = DEFAULT_KB, as_json: AsJson = False) -> None:
    """Check the database and the indexes of a knowledge base. Needs no embedder."""
    check_exists(kb)
    findings = asyncio.run(_findings(kb))
    if as_json:
        print_json({"findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(StoreError.exit_code)


async def _findings(location: str) -> list[Finding]:
    """What the store reports; an error that keeps it from opening is a finding too."""
    from lagotto.indexes.base import Finding

    try:
        async with open_store(location) as store:
            return await store.check()
    except StoreError as exc:
        return [Finding(level="problem", what=str(exc))]


def _print(finding: Finding) -> None:
    typer.echo(f"{finding.level + ':':<9}{_line(finding.what)}")
    if finding.advice:
        typer.echo(f"{'':<9}{_line(finding.advice)}")


def _line(text: str) -> str:
    """`text` on one line; every blank stays, since it may be part of a path to be pasted."""
    return printable(text.replace("\n", " "))
