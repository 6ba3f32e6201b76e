"""`serve`, `mcp` and `keys`: the base for programs, agents and people."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from lagotto._internal.locations import is_web_address
from lagotto._internal.memory import limit_arenas
from lagotto.cli.connect import check_exists, open_store
from lagotto.cli.options import BaseOptions, argument, option, parse_filters
from lagotto.cli.output import one_line, printable, say, stdout
from lagotto.errors import ConfigError, missing_package

if TYPE_CHECKING:
    from lagotto.base.protocol import AsyncBase
    from lagotto.server.access import ApiKey, ApiKeys

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The settings of a server that have an option, by their names in ServerSettings."""

    host: str = option("Address to listen at.", default="127.0.0.1")
    port: int = option("Port.", min=0, max=65535, default=8000)
    workers: int = option("Number of processes.", min=1, default=1)
    preset: str | None = option("Default settings of searches.", metavar="NAME")
    timeout: float = option("Request timeout in seconds.", min=0.1, default=30.0)
    concurrency: int = option("Concurrent requests per process.", min=1, default=16)
    max_upload: int = option("Maximum upload size in bytes.", min=1, default=100_000_000)
    rerankers: list[str] = option(
        "Let requests use this reranker as well.",
        flag="--allow-reranker",
        metavar="NAME",
        default=[],
    )
    cors_origins: list[str] = option(
        "Let pages of this origin call it.", flag="--cors-origin", metavar="ORIGIN", default=[]
    )
    batching: bool = option(
        "Embed waiting queries together: for services, and for many clients.",
        flag="--batch-queries",
        default=False,
    )
    log_queries: bool = option("Write queries to the log.", default=False)


def serve(base: BaseOptions, how: ServeOptions) -> None:
    """Serve the knowledge base over HTTP."""
    with missing_package("the server", "server"):
        from lagotto.server.serve import serve as run
        from lagotto.server.settings import LOCAL_RERANKERS, ServerSettings
    check_exists(base.kb)
    chosen = {**asdict(how), "rerankers": (*LOCAL_RERANKERS, *how.rerankers)}
    settings = ServerSettings(location=base.kb, embedder=base.embedder, **chosen)
    text = "serving at {0}, described at {0}/openapi.json; Ctrl-C ends it"
    run(settings, announce=lambda url: say(text.format(url)))


def mcp(
    base: BaseOptions,
    write: bool = option("Let agents add and remove documents, too.", default=False),
    preset: str | None = option("Default settings of searches.", metavar="NAME"),
    http: bool = option("Serve over HTTP at /mcp instead of stdin and stdout.", default=False),
    host: str = option("With --http: address.", default="127.0.0.1"),
    port: int = option("With --http: port.", min=0, max=65535, default=8000),
) -> None:
    """Serve the knowledge base to agents (MCP). Needs `lagotto[mcp]`."""
    with missing_package("`lagotto mcp`", "mcp"):
        from lagotto.mcp.server import serve_stdio
    check_exists(base.kb)
    if http:
        from lagotto.server.serve import serve
        from lagotto.server.settings import ServerSettings

        if is_web_address(base.kb):
            remedy = "leave --http out to use it by stdio"
            raise ConfigError(f"{base.kb} has MCP itself, at /mcp; {remedy}")
        chosen: dict[str, Any] = {"preset": preset, "host": host, "port": port}
        settings = ServerSettings(
            location=base.kb, embedder=base.embedder, only_mcp=True, mcp_write=write, **chosen
        )
        serve(settings, announce=lambda url: say(f"serving MCP at {url}/mcp; Ctrl-C ends it"))
        return
    # A thread that reads stdin can't be interrupted; ending at once loses nothing that is stored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    limit_arenas()
    opened: AsyncBase
    if is_web_address(base.kb):
        if base.embedder or preset:
            raise ConfigError("--embedder and --preset: the server at this address decides on them")
        from lagotto.base.client import AsyncClient

        opened = AsyncClient(base.kb)
    else:
        from lagotto.base.knowledge_base import AsyncKnowledgeBase

        opened = AsyncKnowledgeBase(base.kb, embedder=base.embedder, prefs=preset)
    asyncio.run(serve_stdio(opened, writes=write))


_DAYS = re.compile(r"(\d{1,5})d")


def keys(
    base: BaseOptions,
    name: str = option("Name of the key.", default=""),
    scopes: str = option("read, write, admin.", metavar="LIST", default="read"),
    collections: str | None = option("The only collections it sees.", metavar="LIST"),
    filters: list[str] = option(
        "The only documents it sees (repeatable).",
        flag="--filter --filters",
        metavar="KEY=VALUE|JSON",
        default=[],
    ),
    expires: str | None = option("Expiry date, or 30d.", metavar="DATE"),
    action: Literal["create", "list", "revoke"] = argument("What to do.", metavar="ACTION"),
    key: str | None = argument("Id or name of the key to revoke.", metavar="KEY", default=None),
) -> Iterator[object]:
    """Create, list and revoke the API keys of a server."""
    check_exists(base.kb)
    if action == "list":
        yield from _listed(_of_keys(base.kb, lambda keys: keys.list()))
    elif action == "create":
        attributes: dict[str, Any] = {
            "scopes": _words(scopes),
            "collections": None if collections is None else _words(collections),
            "filters": parse_filters(filters),
            "expires_at": _moment(expires),
        }
        secret, made = _of_keys(base.kb, lambda keys: keys.create(name, **attributes))
        yield {**made.model_dump(mode="json"), "key": secret}
        typer.echo(secret)
        say(f"{made.id} ({made.name}); the key is shown this once and not stored")
    elif key is None:
        raise ConfigError("which key? write `lagotto keys revoke KEY`, with its id or name")
    else:
        revoked = _of_keys(base.kb, lambda keys: keys.revoke(key))
        typer.echo(printable(f"{revoked.id} ({revoked.name}) is revoked"))


def _of_keys(location: str, call: Callable[[ApiKeys], Awaitable[T]]) -> T:
    from lagotto.server.access import ApiKeys

    async def run() -> T:
        async with open_store(location) as store:
            return await call(ApiKeys(store.keyed_values))

    return asyncio.run(run())


def _listed(api_keys: list[ApiKey]) -> Iterator[object]:
    now = datetime.now(UTC)
    yield [{**key.model_dump(mode="json"), "state": key.state(now)} for key in api_keys]
    from lagotto.cli.render import print_table

    rows = []
    for key in api_keys:
        parts = [", ".join(key.collections)] if key.collections is not None else []
        parts += [json.dumps(key.filters, ensure_ascii=False)] if key.filters else []
        expires = f"{key.expires_at:%Y-%m-%d}" if key.expires_at is not None else "never"
        scopes, sees = ",".join(key.scopes), " and ".join(parts) or "all"
        rows.append((key.id, one_line(key.name), key.state(now), expires, scopes, one_line(sees)))
    print_table(stdout(), ("id", "name", "state", "expires", "scopes", "sees"), rows)


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
