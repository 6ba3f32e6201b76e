"""`mcp`: the base as an MCP server, for agents."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from lagotto.cli.connect import check_exists
from lagotto.cli.options import BaseOptions
from lagotto.cli.output import say
from lagotto.errors import ConfigError
from lagotto.locations import is_served
from lagotto.malloc_arenas import limit_arenas

if TYPE_CHECKING:
    from lagotto.client import AsyncClient
    from lagotto.knowledge_base import AsyncKnowledgeBase


def mcp(
    base: BaseOptions,
    write: Annotated[
        bool, typer.Option("--write", help="Let agents add and remove documents, too.")
    ] = False,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="Default settings of searches.")
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP at /mcp instead of stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="With --http: address.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With --http: port.")
    ] = 8000,
) -> None:
    """Serve the knowledge base to agents (MCP). Needs `lagotto[mcp]`."""
    try:
        from lagotto.mcp.stdio import serve_stdio
    except ModuleNotFoundError as exc:
        package = str(exc.name).partition(".")[0]
        raise ConfigError(
            f"`lagotto mcp` needs the package {package}, which is not installed; run "
            "`pip install 'lagotto[mcp]'`"
        ) from exc
    check_exists(base.kb)
    if http:
        _serve_http(base, write=write, preset=preset, host=host, port=port)
        return
    # A thread that reads stdin can't be interrupted; ending at once loses nothing that is stored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit_arenas()
    asyncio.run(serve_stdio(_opened(base, preset), writes=write))


def _opened(base: BaseOptions, preset: str | None) -> AsyncKnowledgeBase | AsyncClient:
    if not is_served(base.kb):
        from lagotto.knowledge_base import AsyncKnowledgeBase

        return AsyncKnowledgeBase(base.kb, embedder=base.embedder, prefs=preset)
    if base.embedder or preset:
        raise ConfigError("--embedder and --preset: the server at this address decides on them")
    from lagotto.client import AsyncClient

    return AsyncClient(base.kb)


def _serve_http(
    base: BaseOptions, *, write: bool, preset: str | None, host: str, port: int
) -> None:
    from lagotto.server.serve import serve
    from lagotto.server.settings import ServerSettings

    if is_served(base.kb):
        raise ConfigError(f"{base.kb} has MCP itself, at /mcp; leave --http out to use it by stdio")
    serve(
        ServerSettings(
            location=base.kb,
            embedder=base.embedder,
            preset=preset,
            host=host,
            port=port,
            only_mcp=True,
            mcp_write=write,
        ),
        announce=lambda url: say(f"serving MCP at {url}/mcp; Ctrl-C ends it"),
    )
