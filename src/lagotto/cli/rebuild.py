"""`rebuild`: other chunks, vectors or indexes from the stored documents."""

from __future__ import annotations

from typing import Annotated

import typer

from lagotto.cli.connect import check_exists
from lagotto.cli.options import DEFAULT_KB, AsJson, Kb, Pooling
from lagotto.cli.output import print_json


def rebuild(
    kb: Kb = DEFAULT_KB,
    new_embedder: Annotated[
        str | None, typer.Option("--embedder", metavar="NAME", help="The new embedding model.")
    ] = None,
    chunker: Annotated[
        str | None,
        typer.Option("--chunker", metavar="NAME", help="The new chunker, such as heading:256/32."),
    ] = None,
    pooling: Annotated[
        Pooling | None, typer.Option("--pooling", help="The new pooling of token vectors.")
    ] = None,
    text_index: Annotated[
        str | None,
        typer.Option("--text-index", metavar="NAME", help="The new full-text index."),
    ] = None,
    vector_index: Annotated[
        str | None,
        typer.Option("--vector-index", metavar="NAME", help="The new vector index."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild chunks, vectors and indexes. Until it is complete, searches use the current state.

    What is not named stays as it is; with nothing named, only the indexes are rebuilt.
    """
    from lagotto.cli.progress import RebuildMeter, resumable
    from lagotto.sync_facade import KnowledgeBase

    check_exists(kb)
    meter = RebuildMeter()
    with resumable(meter), KnowledgeBase(kb) as base:
        report = base.rebuild(
            embedder=new_embedder,
            chunker=chunker,
            pooling=pooling,
            text_index=text_index,
            vector_index=vector_index,
            progress=meter,
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        typer.echo(report)
