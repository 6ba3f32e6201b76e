from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lagotto.errors import ConfigError
from lagotto.filters import Eq, Gt
from lagotto.server.access import Access, Sight
from lagotto.server.keys import KIND, ApiKeys, digest_of, is_well_formed, make_key
from lagotto.stores.keyed_values import MemoryKeyedValues


@pytest.fixture
def keys() -> ApiKeys:
    return ApiKeys(MemoryKeyedValues())


def test_a_key_is_known_by_its_form() -> None:
    made = {make_key() for _ in range(50)}
    assert len(made) == 50
    assert all(key.startswith("lgt_") and len(key) == 52 for key in made)
    assert all(map(is_well_formed, made))
    key = make_key()
    assert not is_well_formed(key[:-1] + ("A" if key[-1] != "A" else "B"))
    for wrong in ("", "lgt_", key[4:], key + "=", key.upper(), "lgt_é", f" {key}", "x" * 52):
        assert not is_well_formed(wrong)


async def test_only_the_hash_is_stored() -> None:
    values = MemoryKeyedValues()
    secret, key = await ApiKeys(values).create("ci", scopes=["read", "write"])
    (stored,) = await values.items(KIND)
    assert stored.name == digest_of(secret)
    assert secret not in str(stored)
    assert secret[4:] not in str(stored)
    assert key.scopes == ("read", "write")


async def test_access(keys: ApiKeys) -> None:
    secret, key = await keys.create("ci", collections=["a", "b"], filters=Eq("tenant", "x"))
    access = await keys.access(secret)
    assert access == Access(key.id, ("read",), Sight(("a", "b"), Eq("tenant", "x")))
    assert await keys.access(make_key()) is None
    assert await keys.access("") is None


async def test_expired_and_revoked_keys(keys: ApiKeys) -> None:
    now = datetime.now(UTC)
    old, _ = await keys.create("old", expires_at=now - timedelta(seconds=1))
    new, _ = await keys.create("new", expires_at=now + timedelta(days=1))
    assert await keys.access(old) is None
    assert await keys.access(new) is not None
    await keys.revoke("new")
    assert await keys.access(new) is None
    assert [key.state(now) for key in await keys.list()] == ["expired", "revoked"]
    assert await keys.exist()
    with pytest.raises(ConfigError, match="no key has the id or name 'none'"):
        await keys.revoke("none")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"scopes": ["root"]},
        {"scopes": []},
        {"collections": [""]},
        {"filters": Gt("page", 3)},
    ],
)
async def test_keys_that_can_not_be(keys: ApiKeys, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        await keys.create(**{"name": "n", **wrong})  # type: ignore[arg-type]
