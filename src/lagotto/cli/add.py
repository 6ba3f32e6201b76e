"""`add` and `sync`: files and folders into a knowledge base."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.cli.connect import open_base
from lagotto.cli.options import INTERRUPTED, AsJson, BaseOptions, MakingOptions, ReadingOptions
from lagotto.cli.output import print_json, say
from lagotto.errors import ReadError

if TYPE_CHECKING:
    from lagotto.cli.progress import Meter
    from lagotto.ingest import AddReport
    from lagotto.sync_facade import KnowledgeBase


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders.")],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    as_json: AsJson = False,
) -> None:
    """Add files and folders. Unchanged files are skipped, changed ones replaced."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        return kb.add(*paths, progress=meter, **_arguments(reading))

    _finish(_ingest(run, _meter(paths, reading), base, making), as_json=as_json)


def sync(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Folders.")
    ],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    as_json: AsJson = False,
) -> None:
    """Add folders and remove what is gone. Documents of deleted files are removed."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        return kb.sync(*folders, progress=meter, **_arguments(reading))

    _finish(_ingest(run, _meter(folders, reading), base, making), as_json=as_json)


def _ingest(
    run: Callable[[KnowledgeBase, Meter], AddReport],
    meter: Meter,
    base: BaseOptions,
    making: MakingOptions,
) -> AddReport:
    try:
        with meter, open_base(base, making) as kb:
            return run(kb, meter)
    except KeyboardInterrupt as exc:
        say(f"stopped: {meter.stored} documents are stored; run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from exc


def _finish(report: AddReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        typer.echo(report.model_copy(update={"failures": ()}))
    for failure in report.failures:
        say(f"failed: {failure}")
    if report.failures:
        raise typer.Exit(ReadError.exit_code)


def _meter(paths: list[Path], reading: ReadingOptions) -> Meter:
    from lagotto.cli.progress import Meter

    return Meter(paths, include=reading.include, exclude=reading.exclude)


def _arguments(reading: ReadingOptions) -> dict[str, Any]:
    from lagotto.cli.metadata import parse_metadata
    from lagotto.readers import Columns

    return {
        "collection": reading.collection,
        "include": reading.include,
        "exclude": reading.exclude,
        "language": reading.language,
        "metadata": parse_metadata(reading.metadata),
        "columns": Columns(
            text=tuple(reading.text_column), title=reading.title_column, id=reading.id_column
        ),
    }
