"""`copy`: a knowledge base from one store to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.connect import check_exists, open_store
from lagotto.cli.options import AsJson
from lagotto.cli.output import print_json

if TYPE_CHECKING:
    from lagotto.base_copy import CopyReport
    from lagotto.cli.progress import CopyMeter


def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The knowledge base to copy.")],
    target: Annotated[
        str,
        typer.Argument(metavar="DST", help="The copy: a file or a database, created if missing."),
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a knowledge base. To another file or database, with its vectors, and verified."""
    from lagotto.cli.progress import CopyMeter, resumable

    check_exists(source)
    meter = CopyMeter()
    with resumable(meter):
        report = asyncio.run(_copy(source, target, meter))
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        typer.echo(report)


async def _copy(source: str, target: str, meter: CopyMeter) -> CopyReport:
    from lagotto.base_copy import copy_base

    async with open_store(source) as ours, open_store(target) as theirs:
        return await copy_base(ours, theirs, progress=meter)
