"""`info`, `doctor`, `copy`, `rebuild`, `export` and `import`: a base as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from lagotto._internal.display import counted
from lagotto.cli import options
from lagotto.cli.connect import check_exists, open_existing, open_store
from lagotto.cli.ingest import ingest
from lagotto.cli.options import BaseOptions, MakingOptions, argument, option, parse_filters
from lagotto.cli.output import one_line, print_json, printable, say, stdout, warn
from lagotto.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.base.copy import CopyReport
    from lagotto.base.duplicates import Duplicate
    from lagotto.base.ingest import AddReport
    from lagotto.cli.progress import CopyMeter, Meter
    from lagotto.indexes.base import Finding
    from lagotto.stores.base import StoreInfo


def info(base: BaseOptions) -> Iterator[object]:
    """Show the size of a knowledge base and what it was made with."""
    with open_existing(base) as kb:
        store_info = kb.info()
    yield store_info
    from rich.filesize import decimal

    from lagotto.cli.render import print_fields

    collections = (f"{name} ({count})" for name, count in store_info.collections.items())
    details = [store_info.embedder] if store_info.embedder else []
    details += [f"dimension {store_info.dimension}"] if store_info.dimension else []
    model = store_info.model_id
    if model and details:
        model = f"{model} ({', '.join(details)})"
    fields = {
        "base": store_info.location,
        "documents": str(store_info.documents),
        "chunks": str(store_info.chunks),
        "collections": ", ".join(collections),
        "languages": _languages(store_info),
        # by its name and as it was named: `all-MiniLM-L6-v2 (minilm)`
        "embedder": model,
        "chunker": store_info.chunker_id,
        "text index": store_info.text_index,
        # one behind a network; the usual ones are not worth a line
        "vectors in": store_info.vector_index if ":" in (store_info.vector_index or "") else "",
        "not indexed": _not_indexed(store_info),
        "size": decimal(store_info.bytes_on_disk),
    }
    print_fields(stdout(), {name: one_line(value) for name, value in fields.items()})
    warn((*store_info.degraded, *_unknown_languages(store_info)))


def _unknown_languages(store_info: StoreInfo) -> list[str]:
    """What the embedder does not know of the base, if the embedder is a known model."""
    from lagotto.embedders.base import unknown_languages
    from lagotto.embedders.catalog import MODELS

    if (model := MODELS.get(store_info.embedder or "")) is None:
        return []
    note = unknown_languages(model.config, store_info.by_language, total=store_info.documents)
    return [note] if note else []


def _not_indexed(store_info: StoreInfo) -> str:
    """The indexes that the next search has to bring up to date before it can answer.

    Fewer changes are read from the base as if they were indexed.
    """
    from lagotto.indexes.overlay import MOST_CHUNKS

    behind = {index.role: index.changes - index.applied_seq for index in store_info.indexes}
    late = [f"{counted(n, 'change')} ({role})" for role, n in behind.items() if n > MOST_CHUNKS]
    return f"{', '.join(late)}; the next search indexes them first" if late else ""


def _languages(store_info: StoreInfo) -> str:
    languages = ", ".join(store_info.languages)
    if not store_info.of_unknown_language:
        return languages
    documents = counted(store_info.of_unknown_language, "document")
    if not languages:
        return f"unknown for {documents}, which are not stemmed"
    return f"{languages}; unknown for {documents}, stemmed as most of the collection"


def doctor(
    kb: str = options.KB,
    duplicates: bool = option("List passages that others contain.", default=False),
    as_json: bool = options.AS_JSON,
) -> None:
    """Check the database and the indexes of a knowledge base. Needs no embedder."""
    check_exists(kb)
    findings, copies = asyncio.run(_findings(kb, duplicates=duplicates))
    if as_json:
        print_json({"findings": findings, **({"duplicates": copies} if duplicates else {})})
    else:
        for finding in findings:
            # every blank stays, since it may be part of a path to be pasted
            typer.echo(printable(f"{finding.level + ':':<9}{finding.what}".replace("\n", " ")))
            if finding.advice:
                typer.echo(printable(f"{'':<9}{finding.advice}".replace("\n", " ")))
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(StoreError.exit_code)


async def _findings(location: str, *, duplicates: bool) -> tuple[list[Finding], list[Duplicate]]:
    """What the store reports; an error that keeps it from opening is a finding too."""
    from lagotto.indexes.base import Finding

    try:
        async with open_store(location) as store:
            if not duplicates:
                return await store.check(), []
            from lagotto.base.duplicates import duplicate_findings, find_duplicates

            copies = await find_duplicates(store)
            return [*await store.check(), *duplicate_findings(copies)], copies
    except StoreError as exc:
        return [Finding(level="problem", what=str(exc))], []


def copy(
    source: str = argument("The knowledge base to copy.", metavar="SRC"),
    target: str = argument("The copy: a file or a database, created if missing.", metavar="DST"),
) -> Iterator[object]:
    """Copy a knowledge base. To another file or database, with its vectors, and verified."""
    from lagotto.cli.progress import CopyMeter, resumable

    check_exists(source)
    meter = CopyMeter()
    with resumable(meter):
        report = asyncio.run(_copy(source, target, meter))
    yield report
    typer.echo(report)


async def _copy(source: str, target: str, meter: CopyMeter) -> CopyReport:
    from lagotto.base.copy import copy_base

    async with open_store(source) as ours, open_store(target, copy_of=ours.location) as theirs:
        return await copy_base(ours, theirs, progress=meter)


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What changes, by the names of the arguments of `KnowledgeBase.rebuild`."""

    new_embedder: str | None = option("The new embedding model.", flag="--embedder", metavar="NAME")
    chunker: str | None = option("The new chunker, such as heading:256/32.", metavar="NAME")
    pooling: options.Pooling | None = option("The new pooling of token vectors.")
    text_index: str | None = option("The new full-text index.", metavar="NAME")
    vector_index: str | None = option("The new vector index.", metavar="NAME")


def rebuild(new: RebuildOptions, kb: str = options.KB) -> Iterator[object]:
    """Rebuild chunks, vectors and indexes. Until it is complete, searches use the current state.

    What is not named stays as it is; with nothing named, only the indexes are rebuilt.
    """
    from lagotto.base.blocking import KnowledgeBase
    from lagotto.cli.progress import RebuildMeter, resumable

    check_exists(kb)
    chosen = asdict(new)
    meter = RebuildMeter()
    with resumable(meter), KnowledgeBase(kb) as base:
        report = base.rebuild(embedder=chosen.pop("new_embedder"), progress=meter, **chosen)
    yield report
    typer.echo(report)


def synonyms(
    base: BaseOptions,
    file: Path | None = argument(
        "Lines such as: PTO, paid time off. Shown without one.", metavar="[FILE]", default=None
    ),
    collection: str = option(
        "Their collection.", metavar="NAME", default=options.DEFAULT_COLLECTION
    ),
    clear: bool = option("Remove those of the collection.", default=False),
) -> Iterator[object]:
    """Show or set words that mean the same. A file replaces those of the collection."""
    if clear and file is not None:
        raise ConfigError("give a file or --clear, not both")
    with open_existing(base) as kb:
        if clear or file is not None:
            text = read_text(file) if file else ""
            count = kb.set_synonyms(text, collection=collection)
            yield {"groups": count}
            say(counted(count, "group"))
            return
        by_collection = kb.synonyms()
    yield by_collection
    for name, groups in by_collection.items():
        typer.echo(f"# {printable(name)}")
        for group in groups:
            typer.echo(printable(", ".join(group)))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} can't be read as text: {exc}") from exc


def export(
    base: BaseOptions,
    path: Path = argument("The file to write; with beir, the folder.", metavar="PATH"),
    format: Literal["jsonl", "beir"] = option(  # noqa: A002
        "Whole documents, or the layout of BEIR.", default="jsonl"
    ),
    collection: str | None = options.IN_COLLECTION,
    filters: list[str] | None = options.FILTERS,
) -> Iterator[object]:
    """Write documents to a file. As JSON Lines with all fields, or in the layout of BEIR."""
    with open_existing(base) as kb:
        count = kb.export_documents(
            path, format=format, collection=collection, filters=parse_filters(filters)
        )
    yield {"exported": count, "path": str(path)}
    typer.echo(f"{counted(count, 'document')} written to {path}")


def import_documents(
    base: BaseOptions,
    making: MakingOptions,
    path: Path = argument(
        "An exported file, or a folder in the layout of BEIR.", metavar="PATH", exists=True
    ),
    collection: str | None = option("The collection. [default: as exported]", metavar="NAME"),
    verbose: int = options.VERBOSE,
    as_json: bool = options.AS_JSON,
) -> None:
    """Add exported documents. They keep their ids; unchanged ones are skipped."""

    def run(kb: KnowledgeBase, meter: Meter) -> AddReport:
        return kb.import_documents(path, collection=collection, progress=meter)

    ingest(run, base, making, verbose=verbose, as_json=as_json)
