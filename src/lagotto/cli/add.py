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
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders and web addresses.")
    ],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Read web addresses in private networks too.")
    ] = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
) -> None:
    """Add files, folders and web addresses. Unchanged ones are skipped, changed ones replaced."""

    from lagotto.readers import FetchLimits, check_paths
    from lagotto.readers.base import is_address

    check_paths(
        paths,
        include=reading.include,
        exclude=reading.exclude,
        everything=reading.everything,
        for_a_text="save it in a file",
    )

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        limits = FetchLimits(allow_private=allow_private)
        return kb.add(*paths, fetch_limits=limits, progress=meter, **read_arguments(reading))

    files = [Path(path) for path in paths if not is_address(path)]
    ingest(run, files, base, reading, making, verbose=verbose, as_json=as_json)
