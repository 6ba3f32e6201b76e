"""`add`: files and folders into a knowledge base."""

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


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders.")],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Add files and folders. Unchanged files are skipped, changed ones replaced."""

    from lagotto.readers import check_paths

    check_paths(
        paths,
        include=reading.include,
        exclude=reading.exclude,
        everything=reading.everything,
    )

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        return kb.add(*paths, progress=meter, **read_arguments(reading))

    ingest(run, paths, base, reading, making, verbose=verbose, as_json=as_json)
