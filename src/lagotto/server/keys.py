"""API keys: made once, stored as hashes, looked up by hash.

A key is `lgt_`, 32 random bytes, and a checksum by which a mistyped one is known without a lookup.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from lagotto.documents import Record
from lagotto.errors import ConfigError
from lagotto.filters import Filter, fields, parse_filter
from lagotto.server.access import SCOPES, Access, Scope, Sight
from lagotto.stores.keyed_values import KeyedValues

PREFIX = "lgt_"
SECRET_BYTES = 32
CHECKSUM_BYTES = 4
KIND = "api_key"
NEVER_IN_FILTERS = {"page"}
"""Fields of chunks: what is around a hit, which `context` shows, has other pages."""


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

    def state(self, now: datetime) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    @property
    def access(self) -> Access:
        """What its holder may do and see."""
        sight = Sight(self.collections, parse_filter(self.filters))
        return Access(self.id, self.scopes, sight)


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
        """Make a key; the first of the two is the key itself, which is not stored."""
        _check(name, scopes, collections, filters)
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
        """All keys, the oldest first."""
        found = [ApiKey.model_validate(item.value) for item in await self._values.items(KIND)]
        return sorted(found, key=lambda key: (key.created_at, key.id))

    async def exist(self) -> bool:
        """Whether there is any key, a revoked or expired one as well."""
        return bool(await self._values.items(KIND, limit=1))

    async def revoke(self, name: str) -> ApiKey:
        """Revoke the key of this id or name; ConfigError if there is none, or several."""
        items = [
            (item, ApiKey.model_validate(item.value)) for item in await self._values.items(KIND)
        ]
        found = [(item, key) for item, key in items if key.id == name]
        found = found or [(item, key) for item, key in items if key.name == name]
        if len(found) != 1:
            problem = "no key has" if not found else f"{len(found)} keys have"
            raise ConfigError(f"{problem} the id or name {name!r}; `lagotto keys list` shows them")
        item, key = found[0]
        revoked = key.model_copy(update={"revoked_at": key.revoked_at or datetime.now(UTC)})
        await self._values.put(KIND, item.name, revoked.model_dump(mode="json"))
        return revoked

    async def access(self, secret: str) -> Access | None:
        """What the holder of a key may do; None for one that is unknown, expired or revoked."""
        if not is_well_formed(secret):
            return None
        digest = digest_of(secret)
        found = await self._values.get(KIND, digest)
        if found is None or not hmac.compare_digest(found.name, digest):
            return None
        key = ApiKey.model_validate(found.value)
        return key.access if key.state(datetime.now(UTC)) == "active" else None


def make_key() -> str:
    """A new key."""
    return _written(secrets.token_bytes(SECRET_BYTES))


def is_well_formed(secret: str) -> bool:
    """Whether this is a key, by its form and checksum."""
    try:
        raw = base64.urlsafe_b64decode(secret.removeprefix(PREFIX).encode("ascii") + b"==")
    except ValueError:
        return False
    return len(raw) == SECRET_BYTES + CHECKSUM_BYTES and hmac.compare_digest(
        _written(raw[:SECRET_BYTES]).encode(), secret.encode()
    )


def digest_of(secret: str) -> str:
    """What is stored of a key. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _written(random: bytes) -> str:
    checksum = zlib.crc32(random).to_bytes(CHECKSUM_BYTES, "big")
    return PREFIX + base64.urlsafe_b64encode(random + checksum).decode().rstrip("=")


def _check(
    name: str,
    scopes: Sequence[str],
    collections: Sequence[str] | None,
    filters: Filter | None,
) -> None:
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
