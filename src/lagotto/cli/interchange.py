"""`export` and `import`: documents as JSON Lines, or in the layout of BEIR."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lagotto.cli.connect import open_existing
from lagotto.cli.ingest import ingest
from lagotto.cli.options import (
    AsJson,
    BaseOptions,
    Filters,
    InCollection,
    MakingOptions,
    ReadingOptions,
    Verbose,
)
from lagotto.cli.output import print_json
from lagotto.display import counted

if TYPE_CHECKING:
    from lagotto.cli.progress import Meter
    from lagotto.ingest import AddReport
    from lagotto.sync_facade import KnowledgeBase

Format = Literal["jsonl", "beir"]


def export(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The file to write; with beir, the folder.")
    ],
    base: BaseOptions,
    format: Annotated[  # noqa: A002
        Format, typer.Option("--format", help="Whole documents, or the layout of BEIR.")
    ] = "jsonl",
    collection: InCollection = None,
    filters: Filters = None,
    as_json: AsJson = False,
) -> None:
    """Write documents to a file. As JSON Lines with all fields, or in the layout of BEIR."""
    with open_existing(base) as kb:
        count = kb.export_documents(path, format=format, collection=collection, filters=filters)
    if as_json:
        print_json({"exported": count, "path": str(path)})
    else:
        typer.echo(f"{counted(count, 'document')} written to {path}")


def import_documents(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", exists=True, help="An exported file, or a folder in the layout of BEIR."
        ),
    ],
    base: BaseOptions,
    making: MakingOptions,
    collection: Annotated[
        str | None,
        typer.Option("--collection", metavar="NAME", help="The collection. [default: as exported]"),
    ] = None,
    verbose: Verbose = 0,
    as_json: AsJson = False,
) -> None:
    """Add exported documents. They keep their ids; unchanged ones are skipped."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        return kb.import_documents(path, collection=collection, progress=meter)

    ingest(run, [path], base, ReadingOptions(), making, verbose=verbose, as_json=as_json)
