"""`sync`: a knowledge base kept in step with folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.ingest import ingest, read_arguments
from lagotto.cli.options import AsJson, BaseOptions, MakingOptions, ReadingOptions, Verbose

if TYPE_CHECKING:
    from lagotto.cli.progress import Meter
    from lagotto.ingest import AddReport
    from lagotto.sync_facade import KnowledgeBase


def sync(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Folders.")
    ],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    checksum: Annotated[
        bool, typer.Option("--checksum", help="Read every file, even if it looks unchanged.")
    ] = False,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="Remove documents of files that are gone from anywhere if their content is here.",
        ),
    ] = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
) -> None:
    """Add folders and remove what is gone. Documents of deleted files are removed."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        given = read_arguments(reading)
        return kb.sync(*folders, checksum=checksum, moved=moved, progress=meter, **given)

    ingest(run, folders, base, reading, making, verbose=verbose, as_json=as_json)
