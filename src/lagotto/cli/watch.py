"""`watch`: a knowledge base kept in step with folders while they change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagotto.cli.connect import no_empty_base, open_base
from lagotto.cli.ingest import print_counts, read_arguments, say_problems
from lagotto.cli.options import BaseOptions, MakingOptions, ReadingOptions
from lagotto.cli.output import say
from lagotto.errors import ConfigError
from lagotto.malloc_arenas import limit_arenas

if TYPE_CHECKING:
    from lagotto.sync_facade import KnowledgeBase

QUIET_MS = 1_000
"""Milliseconds without a change before the folders are read again: a save takes several writes."""


def watch(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Folders.")
    ],
    base: BaseOptions,
    reading: ReadingOptions,
    making: MakingOptions,
) -> None:
    """Sync folders whenever a file in them changes, until Ctrl-C. Needs `lagotto[watch]`."""
    limit_arenas()
    changes = _changes(folders)
    arguments = read_arguments(reading)
    with no_empty_base(base.kb), open_base(base, making) as kb, suppress(KeyboardInterrupt):
        _follow(kb, folders, changes, arguments)
    say("stopped; what was added is stored")


def _follow(
    kb: KnowledgeBase,
    folders: list[Path],
    changes: Iterable[Collection[object]],
    arguments: dict[str, Any],
) -> None:
    watching = False
    for changed in changes:
        if changed or not watching:
            _sync(kb, folders, arguments)
        if not watching:
            say("watching; press Ctrl-C to stop")
            watching = True


def _changes(folders: list[Path]) -> Iterable[Collection[object]]:
    """The changes of files, as they happen, none every second; KeyboardInterrupt at Ctrl-C.

    The first answer comes once the folders are watched: what is read after it misses no change.
    """
    try:
        from watchfiles import watch as watch_files
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "watching folders needs the package watchfiles, which is not installed; run "
            "`pip install 'lagotto[watch]'`"
        ) from exc
    return watch_files(
        *folders,
        step=QUIET_MS,
        rust_timeout=QUIET_MS,
        yield_on_timeout=True,
    )


def _sync(kb: KnowledgeBase, folders: list[Path], arguments: dict[str, Any]) -> None:
    report = kb.sync(*folders, **arguments)
    if report.added or report.updated or report.removed or report.failures:
        print_counts(report)
    say_problems(report)
