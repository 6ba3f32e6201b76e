"""What `add` and `sync` share: the arguments of reading, the progress bar, the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lagotto.cli.connect import no_empty_base, open_base
from lagotto.cli.options import BaseOptions, MakingOptions, ReadingOptions
from lagotto.cli.output import print_json, say
from lagotto.errors import ConfigError, ReadError

if TYPE_CHECKING:
    from lagotto.cli.progress import Meter
    from lagotto.ingest import AddReport
    from lagotto.sync_facade import KnowledgeBase

MOST_FAILURES = 20
"""Failures that are named; a file of another format may fail at every line."""


def ingest(
    run: Callable[[KnowledgeBase, Meter], AddReport],
    paths: list[Path],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    *,
    verbose: int = 0,
    as_json: bool,
) -> None:
    """Open the base, run an ingest over `paths` with a progress bar, and print its report."""
    from lagotto.cli.progress import Meter, resumable
    from lagotto.readers.folder.walk import Selection

    chosen = Selection(tuple(reading.include), tuple(reading.exclude), reading.everything)
    meter = Meter(paths, selection=chosen)
    with no_empty_base(base.kb):
        with resumable(meter), open_base(base, making) as kb:
            report = run(kb, meter)
        _print_report(report, verbose=verbose, as_json=as_json)


def _print_report(report: AddReport, *, verbose: int, as_json: bool) -> None:
    """Print counts, what was skipped if asked for, and problems; files that failed end in Exit."""
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        print_counts(report)
    for file in report.skipped.files if verbose else ():
        say(f"skipped: {file.source}: {file.reason}")
    say_problems(report, verbose=verbose)
    if report.failures:
        raise typer.Exit(ReadError.exit_code)


def print_counts(report: AddReport) -> None:
    """Print what was added, on stdout."""
    typer.echo(report.model_copy(update={"failures": (), "notes": ()}))


def say_problems(report: AddReport, *, verbose: int = 0) -> None:
    """Print notes and failures, on stderr; of many failures the first ones, unless `verbose`."""
    for note in report.notes:
        say(f"note: {note}")
    shown = report.failures if verbose else report.failures[:MOST_FAILURES]
    for failure in shown:
        say(f"failed: {failure}")
    if more := len(report.failures) - len(shown):
        say(f"failed: {more} more; --verbose names all of them")


def read_arguments(reading: ReadingOptions) -> dict[str, Any]:
    """The arguments of `KnowledgeBase.add` and `sync` that the options stand for."""
    from lagotto.readers import Columns

    return {
        "collection": reading.collection,
        "include": reading.include,
        "exclude": reading.exclude,
        "everything": reading.everything,
        "language": reading.language,
        "metadata": parse_metadata(reading.metadata),
        "ocr": reading.ocr,
        "columns": Columns(
            text=tuple(reading.text_column),
            title=reading.title_column,
            id=reading.id_column,
            types=parse_types(reading.types),
            detect_types="text" not in reading.types,
        ),
    }


def parse_types(given: Iterable[str]) -> dict[str, Any]:
    """The types of columns from `NAME=TYPE` pairs, separated by commas; `text` alone is none."""
    from typing import get_args

    from lagotto.readers.base import ColumnType

    pairs = [pair for text in given if text != "text" for pair in text.split(",")]
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, kind = pair.rpartition("=")
        if not name or not equals or kind not in get_args(ColumnType):
            known = ", ".join(get_args(ColumnType))
            raise ConfigError(
                f"--types {pair!r} is not NAME=TYPE; write year=integer, for example; "
                f"types are {known}"
            )
        found[name.strip()] = kind
    return found


def parse_metadata(pairs: Iterable[str]) -> dict[str, Any]:
    """Metadata from `KEY=VALUE` pairs. A value is JSON (`2024`, `true`, `["a"]`) or else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--metadata {pair!r} is not KEY=VALUE; write year=2024, for example")
        if key in found:
            raise ConfigError(f"--metadata sets {key!r} twice; for several values pass a JSON list")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    from lagotto.documents import json_value

    try:
        return json_value(json.loads(text))
    except (ValueError, RecursionError):  # not JSON, or a number that metadata can't hold
        return text
