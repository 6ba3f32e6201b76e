"""Locations of bases, as paths that can be used and as text without passwords."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from lagotto.errors import ConfigError

INDEX_MARKER = "lagotto.json"
"""The file that a folder of indexes carries; whatever has none is not ours."""

_FIRST_PAGE = re.compile(rb"(?=SQLite format 3\0.{52}(?:Lago|LAGO))", re.DOTALL)
"""The first page of a base, with its id at byte 68; the second is that before schema 1."""
COMPANIONS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database. The first of them is a log, which has
the first page of a new base."""
LOG_READ = 65_536

FILE_SCHEME = "sqlite:///"

MASK = "***"
SHORTEST_SECRET = 3
"""Characters; replacing shorter ones in a message would make it unreadable."""

SHOWN = 200
"""Characters of a location in a message."""

_USERINFO = re.compile(
    r"\A(?P<scheme>(?:[a-z][\w+.-]*+(?::/{1,3}|//))?+)(?P<user>[^:@/]*+):(?P<rest>.*)@",
    re.IGNORECASE | re.DOTALL,
)
_SEPARATORS = re.compile(r"[\s'\"@/?:&\\]+")
"""Where a message may cut a password, or write it in another way."""

_PARAMETER = re.compile(
    r"(?P<name>(?:passw|pwd|secret|token)[\w-]*+\s*+=\s*+)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^&\s;,'\"`]++)",
    re.IGNORECASE,
)


def mask_location(location: str) -> str:
    """A location without passwords: `postgresql://user:***@host/database`.

    Made for what users type: it also holds for addresses that no driver would take.
    """
    masked = _USERINFO.sub(lambda match: f"{match['scheme']}{match['user']}:{MASK}@", location)
    masked = _PARAMETER.sub(lambda match: match["name"] + MASK, masked)
    return masked if len(masked) <= SHOWN else f"{masked[:SHOWN]}..."


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` with every occurrence of a secret replaced, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def secrets_of(location: str) -> set[str]:
    """What must not be shown of a location: its passwords, in all forms they may be echoed in."""
    secrets = {match["value"].strip("'\"") for match in _PARAMETER.finditer(location)}
    if userinfo := _USERINFO.match(location):
        password = userinfo["rest"]
        secrets |= {password, *_SEPARATORS.split(password)}
    secrets |= {unquote(secret) for secret in secrets}
    return {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}


def is_address(location: str) -> bool:
    """Whether a base is on a server, not in a file."""
    return "://" in location.removeprefix(FILE_SCHEME)


def is_web_address(name: object) -> bool:
    """Whether a name is an address on the web: of a page, or of a base behind a server."""
    return str(name)[:8].lower().startswith(("http://", "https://"))


def file_of(location: str) -> Path:
    return Path(location.removeprefix(FILE_SCHEME))


def is_missing_file(location: str) -> bool:
    """Whether opening a base here would create a file."""
    return not is_address(location) and not os.path.exists(file_of(location))  # noqa: PTH110 any text


def check_path(path: str) -> None:
    """Raise ConfigError for a path that no file can have: not UTF-8, too long, or with a NUL.

    Also for a mistyped address with a password, lest a file of that name be created.
    """
    shown = mask_location(path)
    try:
        path.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"the path {shown!r} is not valid UTF-8; rename the file or the folder"
        ) from exc
    try:
        os.stat(Path(path))  # noqa: PTH116 unlike Path.exists it reports a path that is too long
    except (FileNotFoundError, NotADirectoryError):
        if shown.count(MASK) > path.count(MASK):
            raise ConfigError(
                f"{shown!r} looks like an address with a password, and there is no such file; "
                "write postgresql://user:password@host/database"
            ) from None
    except PermissionError:
        return
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise ConfigError(f"{shown!r} can't be a file ({reason}); choose another path") from exc


def belongs_to_base(path: Path) -> bool:
    """Whether a file or folder is a part of a base: `NAME.db`, `NAME.db-wal`, `NAME.db.index`."""
    name = path.name
    if name.endswith(".index"):
        return (path / INDEX_MARKER).is_file()
    for ending in COMPANIONS:
        name = name.removesuffix(ending)
    if not name.endswith(".db"):
        return False
    for file in (path.with_name(name), path.with_name(f"{name}-wal")):
        with suppress(OSError):
            if file.is_file():  # another kind of file might block
                with file.open("rb") as content:
                    if _FIRST_PAGE.search(content.read(LOG_READ)):
                        return True
    return False
