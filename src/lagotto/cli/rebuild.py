"""`rebuild`: other chunks, vectors or indexes from the stored documents."""

from __future__ import annotations

from typing import Annotated

import typer

from lagotto.cli.connect import check_exists
from lagotto.cli.options import DEFAULT_KB, AsJson, Kb, MakingOptions
from lagotto.cli.output import print_json


def rebuild(
    making: MakingOptions,
    kb: Kb = DEFAULT_KB,
    new_embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME", help="The new embedding model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild chunks, vectors and indexes. Searches go on from the former state until the switch.

    Whatever is not named stays as it is; with nothing named, only the indexes are rebuilt.
    """
    from lagotto.cli.progress import RebuildMeter, resumable
    from lagotto.sync_facade import KnowledgeBase

    check_exists(kb)
    meter = RebuildMeter()
    with resumable(meter), KnowledgeBase(kb) as base:
        report = base.rebuild(
            embedder=new_embedder,
            chunker=making.chunker,
            pooling=making.pooling,
            text_index=making.text_index,
            progress=meter,
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        typer.echo(report)
