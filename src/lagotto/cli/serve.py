"""`serve`: the base over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from lagotto.cli.connect import check_exists
from lagotto.cli.options import BaseOptions
from lagotto.cli.output import say
from lagotto.errors import ConfigError


def serve(
    base: BaseOptions,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Number of processes.")] = 1,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="Default settings of searches.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Most seconds for a request.")
    ] = 30.0,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Requests worked on at once, per process.")
    ] = 16,
    max_upload: Annotated[
        int, typer.Option("--max-upload", min=1, help="Most bytes of an upload.")
    ] = 100_000_000,
    allow_reranker: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-reranker", metavar="NAME", help="Let requests use this reranker as well."
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option("--cors-origin", metavar="ORIGIN", help="Let pages of this origin call it."),
    ] = None,
    batch_queries: Annotated[
        bool,
        typer.Option(
            "--batch-queries",
            help="Embed waiting queries together: for services, and for many clients.",
        ),
    ] = False,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Write queries to the log.")
    ] = False,
) -> None:
    """Serve the knowledge base over HTTP."""
    try:
        from lagotto.server.serve import serve as run
        from lagotto.server.settings import LOCAL_RERANKERS, ServerSettings
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"the server needs the package {exc.name}, which is not installed; run "
            "`pip install 'lagotto[server]'`"
        ) from exc
    check_exists(base.kb)
    settings = ServerSettings(
        location=base.kb,
        embedder=base.embedder,
        preset=preset,
        host=host,
        port=port,
        workers=workers,
        timeout=timeout,
        concurrency=concurrency,
        max_upload=max_upload,
        rerankers=(*LOCAL_RERANKERS, *(allow_reranker or ())),
        cors_origins=tuple(cors_origin or ()),
        batching=batch_queries,
        log_queries=log_queries,
    )
    run(
        settings,
        announce=lambda url: say(
            f"serving at {url}, described at {url}/openapi.json; Ctrl-C ends it"
        ),
    )
