"""What a caller may do and see: API keys, their scopes, collections and filters."""

from __future__ import annotations

import base64
import builtins
import hashlib
import hmac
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pydantic import Field

from lagotto.documents import Record
from lagotto.errors import ConfigError
from lagotto.filters import And, Filter, In, fields, parse_filter
from lagotto.server.problems import Problem
from lagotto.stores.base import KeyedValues

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class Visibility:
    """The part of a base that a caller sees.

    It is a type of its own, and not a Filter, so that a filter of a request can't take its place:
    `where` is the only way to a filter, and it can only narrow.
    """

    collections: tuple[str, ...] | None = None
    condition: Filter = field(default_factory=And)

    @property
    def everything(self) -> bool:
        return self.collections is None and self.condition == And()

    def where(self, filters: Filter | None = None) -> Filter:
        """The part of what the caller sees that it wants."""
        seen = And() if self.collections is None else In("collection", self.collections)
        parts = [part for part in (seen, self.condition, filters or And()) if part != And()]
        return parts[0] if len(parts) == 1 else And(*parts)


@dataclass(frozen=True, slots=True)
class Access:
    """A caller: the id of its key (None without keys), its scopes and its visibility.

    `key_hash` is what the key is stored under, by which its state can be looked up later.
    """

    key_id: str | None = None
    scopes: tuple[Scope, ...] = SCOPES
    visibility: Visibility = Visibility()
    key_hash: str | None = field(default=None, compare=False, repr=False)

    def check(self, scope: Scope) -> None:
        if scope not in self.scopes:
            needed = f"this needs a key with the scope {scope}"
            raise Problem("Forbidden", f"{needed}; this one has {', '.join(self.scopes)}")

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes and self.visibility.everything


PREFIX = "lgt_"
SECRET_BYTES = 32
CHECKSUM_BYTES = 4
KIND = "api_key"
NEVER_IN_FILTERS = {"page"}
"""Fields of chunks: what is around a hit, which `context` shows, has other pages."""


KeyState = Literal["active", "expired", "revoked"]


class ApiKey(Record):
    """A key as it is stored: everything but the key."""

    id: str
    name: str = Field(min_length=1, max_length=200)
    scopes: tuple[Scope, ...]
    collections: tuple[str, ...] | None = None
    filters: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def state(self, now: datetime) -> KeyState:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    @property
    def access(self) -> Access:
        visibility = Visibility(self.collections, parse_filter(self.filters))
        return Access(self.id, self.scopes, visibility)


class ApiKeys:
    """The keys of a base."""

    def __init__(self, values: KeyedValues) -> None:
        self._values = values

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        collections: Sequence[str] | None = None,
        filters: Filter | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[str, ApiKey]:
        """Make a key; the first of the two is the key itself, which is not stored.

        ConfigError if an active key has this name.
        """
        if not name.strip():
            raise ConfigError("a key needs a name; pass --name NAME")
        if unknown := sorted(set(scopes) - set(SCOPES)):
            raise ConfigError(f"no scope is called {unknown[0]!r}; there are {', '.join(SCOPES)}")
        if not scopes:
            raise ConfigError(f"a key needs scopes; there are {', '.join(SCOPES)}")
        if collections is not None and not all(collections):
            raise ConfigError("a collection needs a name; write --collections a,b")
        if filters is not None and fields(filters) & NEVER_IN_FILTERS:
            raise ConfigError(
                "the filter of a key can't have the field page: it is about documents; filter by "
                "collection or metadata"
            )
        if existing := await self._named(name, "active"):
            raise ConfigError(
                f"the key {existing[0][1].id} is called {name!r}; choose another name, or revoke it"
            )
        secret = make_key()
        key = ApiKey(
            id=f"key_{secrets.token_hex(6)}",
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            collections=None if collections is None else tuple(collections),
            filters={} if filters is None else filters.to_json(),
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )
        await self._values.put(KIND, digest_of(secret), key.model_dump(mode="json"), expected=0)
        return secret, key

    async def list(self) -> list[ApiKey]:
        return [key for _, key in await self._items()]

    async def exist(self) -> bool:
        """Whether there is any key: then requests need one, even after all have been revoked."""
        return bool(await self._values.items(KIND, limit=1))

    async def any_active(self) -> bool:
        now = datetime.now(UTC)
        return any(key.state(now) == "active" for key in await self.list())

    async def revoke(self, name: str) -> ApiKey:
        """Revoke the key of this id or name, an active one before others of its name.

        ConfigError if there is none, or several.
        """
        matches = [item for item in await self._items() if item[1].id == name]
        for state in get_args(KeyState):
            matches = matches or await self._named(name, state)
        if matches and matches[-1][1].revoked_at is not None:
            return matches[-1][1]
        if not matches:
            raise ConfigError(f"no key has the id or name {name!r}; `lagotto keys list` shows them")
        if len(matches) > 1:
            ids = " and ".join(key.id for _, key in matches)
            raise ConfigError(f"{ids} are called {name!r}; revoke them by their ids")
        ((digest, key),) = matches
        revoked = key.model_copy(update={"revoked_at": datetime.now(UTC)})
        await self._values.put(KIND, digest, revoked.model_dump(mode="json"))
        return revoked

    async def _items(self) -> builtins.list[tuple[str, ApiKey]]:
        items = await self._values.items(KIND)
        pairs = [(item.name, ApiKey.model_validate(item.value)) for item in items]
        return sorted(pairs, key=lambda item: (item[1].created_at, item[1].id))

    async def _named(self, name: str, state: KeyState) -> builtins.list[tuple[str, ApiKey]]:
        now = datetime.now(UTC)
        items = await self._items()
        return [item for item in items if item[1].name == name and item[1].state(now) == state]

    async def access(self, secret: str) -> Access | None:
        if not is_well_formed(secret):
            return None
        digest = digest_of(secret)
        record = await self._values.get(KIND, digest)
        if record is None or not hmac.compare_digest(record.name, digest):
            return None
        key = ApiKey.model_validate(record.value)
        if key.state(datetime.now(UTC)) != "active":
            return None
        return replace(key.access, key_hash=digest)

    async def state(self, key_hash: str | None) -> KeyState:
        if key_hash is None:
            return "active"
        record = await self._values.get(KIND, key_hash)
        return ApiKey.model_validate(record.value).state(datetime.now(UTC)) if record else "revoked"


def make_key() -> str:
    return _secret_text(secrets.token_bytes(SECRET_BYTES))


def is_well_formed(secret: str) -> bool:
    """Whether this is a key, by its form and checksum."""
    try:
        raw = base64.urlsafe_b64decode(secret.removeprefix(PREFIX).encode("ascii") + b"==")
    except ValueError:
        return False
    return len(raw) == SECRET_BYTES + CHECKSUM_BYTES and hmac.compare_digest(
        _secret_text(raw[:SECRET_BYTES]).encode(), secret.encode()
    )


def digest_of(secret: str) -> str:
    """What is stored of a key. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _secret_text(random: bytes) -> str:
    checksum = zlib.crc32(random).to_bytes(CHECKSUM_BYTES, "big")
    return PREFIX + base64.urlsafe_b64encode(random + checksum).decode().rstrip("=")
