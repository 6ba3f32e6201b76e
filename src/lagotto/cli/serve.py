"""`serve`, `mcp` and `keys`: the base for programs, agents and people."""

from __future__ import annotations

import asyncio
import re
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lagotto._internal.locations import is_served
from lagotto._internal.memory import limit_arenas
from lagotto.cli.connect import check_exists, open_store
from lagotto.cli.options import AsJson, BaseOptions
from lagotto.cli.output import print_json, say, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.base.client import AsyncClient
    from lagotto.base.knowledge_base import AsyncKnowledgeBase
    from lagotto.filters import Filter
    from lagotto.server.access import ApiKey


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
        from lagotto.mcp.server import serve_stdio
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
        from lagotto.base.knowledge_base import AsyncKnowledgeBase

        return AsyncKnowledgeBase(base.kb, embedder=base.embedder, prefs=preset)
    if base.embedder or preset:
        raise ConfigError("--embedder and --preset: the server at this address decides on them")
    from lagotto.base.client import AsyncClient

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


_DAYS = re.compile(r"(\d{1,5})d")


def keys(
    action: Annotated[
        Literal["create", "list", "revoke"], typer.Argument(metavar="ACTION", help="What to do.")
    ],
    base: BaseOptions,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Id or name of the key to revoke.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the new key.")] = "",
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="LIST", help="read, write, admin.")
    ] = "read",
    collections: Annotated[
        str | None,
        typer.Option("--collections", metavar="LIST", help="The only collections it sees."),
    ] = None,
    filters: Annotated[
        str | None,
        typer.Option("--filter", "--filters", metavar="JSON", help="The only documents it sees."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DATE", help="Day it ends, or 30d.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create, list and revoke the API keys of a server."""
    check_exists(base.kb)
    if action == "create":
        from lagotto.filters import parse_filter

        where = None if filters is None else parse_filter(filters)
        asyncio.run(
            _create(base.kb, name, _words(scopes), collections, where, _moment(expires), as_json)
        )
    elif action == "list":
        asyncio.run(_list(base.kb, as_json=as_json))
    elif key is None:
        raise ConfigError("which key? write `lagotto keys revoke KEY`, with its id or name")
    else:
        asyncio.run(_revoke(base.kb, key))


async def _create(
    location: str,
    name: str,
    scopes: list[str],
    collections: str | None,
    filters: Filter | None,
    expires_at: datetime | None,
    as_json: bool,
) -> None:
    from lagotto.server.access import ApiKeys

    async with open_store(location) as store:
        secret, key = await ApiKeys(store.keyed_values).create(
            name,
            scopes=scopes,
            collections=None if collections is None else _words(collections),
            filters=filters,
            expires_at=expires_at,
        )
    if as_json:
        print_json({**key.model_dump(mode="json"), "key": secret})
    else:
        typer.echo(secret)
        say(f"{key.id} ({key.name}); the key is shown this once and not stored")


async def _list(location: str, *, as_json: bool) -> None:
    from lagotto.server.access import ApiKeys

    async with open_store(location) as store:
        found = await ApiKeys(store.keyed_values).list()
    now = datetime.now(UTC)
    if as_json:
        print_json([{**key.model_dump(mode="json"), "state": key.state(now)} for key in found])
        return
    from lagotto.cli.render import print_table

    head = ("id", "name", "state", "expires", "scopes", "sees")
    print_table(stdout(), head, [_row(key, now) for key in found])


def _row(key: ApiKey, now: datetime) -> tuple[str, ...]:
    import json

    parts = [", ".join(key.collections)] if key.collections is not None else []
    parts += [json.dumps(key.filters, ensure_ascii=False)] if key.filters else []
    sees = " and ".join(parts) or "all"
    expires = f"{key.expires_at:%Y-%m-%d}" if key.expires_at is not None else "never"
    return key.id, key.name, key.state(now), expires, ",".join(key.scopes), sees


async def _revoke(location: str, name: str) -> None:
    from lagotto.server.access import ApiKeys

    async with open_store(location) as store:
        key = await ApiKeys(store.keyed_values).revoke(name)
    typer.echo(f"{key.id} ({key.name}) is revoked")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _moment(text: str | None) -> datetime | None:
    """A day, a time, or a number of days from now; UTC unless it says otherwise."""
    if text is None:
        return None
    if days := _DAYS.fullmatch(text):
        return datetime.now(UTC) + timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--expires {text!r} is not a day; write 2027-01-31, or 30d for 30 days"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment <= datetime.now(UTC):
        raise ConfigError(f"--expires {text!r} is over already; write a day to come, or 30d")
    return moment
