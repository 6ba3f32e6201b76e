"""`add`, `sync` and `watch`: files and folders into a knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lagotto._internal.display import counted
from lagotto._internal.memory import limit_arenas
from lagotto.cli import options
from lagotto.cli.connect import no_empty_base, open_base
from lagotto.cli.options import BaseOptions, MakingOptions, ReadingOptions, argument, option
from lagotto.cli.output import from_here, one_line, print_json, say
from lagotto.errors import ConfigError, ReadError, missing_package

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.base.ingest import AddReport
    from lagotto.cli.progress import Meter


MOST_FAILURES = 20
"""Failures that are named; a file of another format may fail at every line."""


def ingest(
    run: Callable[[KnowledgeBase, Meter], AddReport],
    base: BaseOptions,
    making: MakingOptions,
    *,
    verbose: int,
    as_json: bool,
) -> None:
    """Open the base, run an ingest with a progress bar, and print its report.

    It has counts, if `verbose` what was skipped, and problems; failures end in Exit.
    """
    from lagotto.cli.progress import Meter, resumable

    meter = Meter()
    with no_empty_base(base.kb):
        with resumable(meter), open_base(base, making) as kb:
            report = run(kb, meter)
        if as_json:
            print_json(report)
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


def print_changed(report: AddReport) -> None:
    """Print which files were added, updated and removed: the first ones, and a count."""
    for what, sources in report.changed.items():
        more = getattr(report, what) - len(sources)
        names = ", ".join(map(one_line, map(from_here, sources)))
        typer.echo(
            f"  {what}: {names}" + (f" and {counted(more, 'more document')}" if more > 0 else "")
        )


def say_problems(report: AddReport, *, verbose: int = 0) -> None:
    """Print notes and failures, on stderr; of many failures the first ones, unless `verbose`."""
    for note in report.notes:
        say(f"note: {note}")
    failures = report.failures if verbose else report.failures[:MOST_FAILURES]
    for failure in failures:
        say(f"failed: {failure}")
    if more := len(report.failures) - len(failures):
        say(f"failed: {more} more; --verbose names all of them")


def read_arguments(reading: ReadingOptions) -> dict[str, Any]:
    """The arguments of `KnowledgeBase.add` and `sync` that the options stand for."""
    from lagotto.readers import Columns

    chosen = asdict(reading)
    named = {name: chosen.pop(f"{name}_column") for name in ("text", "title", "id")}
    types = chosen.pop("types")
    columns = Columns(**named, types=parse_types(types), detect_types="text" not in types)
    return {**chosen, "metadata": parse_metadata(reading.metadata), "columns": columns}


def parse_types(texts: Iterable[str]) -> dict[str, Any]:
    """The types of columns from `NAME=TYPE` pairs, separated by commas; `text` alone is none."""
    from typing import get_args

    from lagotto.readers.base import ColumnType

    pairs = [pair for text in texts if text != "text" for pair in text.split(",")]
    types: dict[str, Any] = {}
    for pair in pairs:
        name, equals, kind = pair.rpartition("=")
        if not name or not equals or kind not in get_args(ColumnType):
            names = ", ".join(get_args(ColumnType))
            raise ConfigError(
                f"--types {pair!r} is not NAME=TYPE; write year=integer, for example; "
                f"types are {names}"
            )
        types[name.strip()] = kind
    return types


def parse_metadata(pairs: Iterable[str]) -> dict[str, Any]:
    """Metadata from `KEY=VALUE` pairs. A value is JSON (`2024`, `true`, `["a"]`) or else text."""
    metadata: dict[str, Any] = {}
    for pair in pairs:
        key, value = options.key_value(pair, flag="--metadata", example="year=2024")
        if key in metadata:
            raise ConfigError(f"--metadata sets {key!r} twice; for several values pass a JSON list")
        metadata[key] = value
    return metadata


def add(
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    paths: list[str] = argument("Files, folders and web addresses.", metavar="PATH"),
    allow_private: bool = option("Read web addresses in private networks too.", default=False),
    verbose: int = options.VERBOSE,
    as_json: bool = options.AS_JSON,
) -> None:
    """Add files, folders and web addresses. Unchanged ones are skipped, changed ones replaced."""
    from lagotto.readers import FetchLimits, check_path

    for path in paths:
        check_path(path, for_a_text="save it in a file")

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        limits = FetchLimits(allow_private=allow_private)
        return kb.add(*paths, fetch_limits=limits, progress=meter, **read_arguments(reading))

    ingest(run, base, making, verbose=verbose, as_json=as_json)


def sync(
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    folders: list[Path] = argument("Folders.", metavar="FOLDER", exists=True, file_okay=False),
    checksum: bool = option("Read every file, even if it looks unchanged.", default=False),
    prune_moved: bool = option(
        "Remove the old copies of files that were moved here.", default=False
    ),
    verbose: int = options.VERBOSE,
    as_json: bool = options.AS_JSON,
) -> None:
    """Add folders and remove what is gone. Documents of deleted files are removed."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        reads = read_arguments(reading)
        return kb.sync(*folders, checksum=checksum, moved=prune_moved, progress=meter, **reads)

    ingest(run, base, making, verbose=verbose, as_json=as_json)


QUIET_MS = 1_000
"""Milliseconds without a change before the folders are read again: a save takes several writes."""


def watch(
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
    folders: list[Path] = argument("Folders.", metavar="FOLDER", exists=True, file_okay=False),
) -> None:
    """Sync folders whenever a file in them changes, until Ctrl-C. Needs `lagotto[watch]`."""
    limit_arenas()
    changes = _changes(folders)
    arguments = read_arguments(reading)
    with no_empty_base(base.kb), open_base(base, making) as kb, suppress(KeyboardInterrupt):
        is_watching = False
        for changed in changes:
            if changed or not is_watching:
                report = kb.sync(*folders, **arguments)
                if report.added or report.updated or report.removed or report.failures:
                    print_counts(report)
                    print_changed(report)
                say_problems(report)
            if not is_watching:
                say("watching; press Ctrl-C to stop")
                is_watching = True
    say("stopped; what was added is stored")


def _changes(folders: list[Path]) -> Iterable[Collection[object]]:
    """The changes of files, as they happen, none every second; KeyboardInterrupt at Ctrl-C.

    The first answer comes once the folders are watched: what is read after it misses no change.
    """
    with missing_package("watching folders", "watch"):
        from watchfiles import watch as watch_files
    return watch_files(*folders, step=QUIET_MS, rust_timeout=QUIET_MS, yield_on_timeout=True)
