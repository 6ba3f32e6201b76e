"""`keys`: API keys of the server, created, listed and revoked."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lagotto.cli.connect import check_exists, open_store
from lagotto.cli.options import AsJson, BaseOptions
from lagotto.cli.output import print_json, say, stdout
from lagotto.errors import ConfigError

if TYPE_CHECKING:
    from lagotto.filters import Filter
    from lagotto.server.keys import ApiKey

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
    from lagotto.server.keys import ApiKeys

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
    from lagotto.server.keys import ApiKeys

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
    from lagotto.server.keys import ApiKeys

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
