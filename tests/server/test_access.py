from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lagotto.base.knowledge_base import AsyncKnowledgeBase
from lagotto.errors import ConfigError
from lagotto.filters import Eq, Gt
from lagotto.server.access import (
    KIND,
    Access,
    ApiKeys,
    Visibility,
    digest_of,
    is_well_formed,
    make_key,
)
from lagotto.stores.base import MemoryKeyedValues
from lagotto.testing.hash_embedder import HashEmbedder


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
    assert access == Access(key.id, ("read",), Visibility(("a", "b"), Eq("tenant", "x")))
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


async def test_names_are_unique_among_active_keys(keys: ApiKeys) -> None:
    _, first = await keys.create("web")
    with pytest.raises(ConfigError, match=f"the key {first.id} is called 'web'; choose another"):
        await keys.create("web")
    assert (await keys.revoke("web")).id == first.id
    assert not await keys.any_active()
    secret, second = await keys.create("web")
    assert (await keys.revoke("web")).id == second.id  # not the one that is revoked already
    assert await keys.access(secret) is None
    again = await keys.revoke("web")
    assert (again.id, again.revoked_at) == (second.id, (await keys.list())[-1].revoked_at)


async def test_keys_of_one_name_are_revoked_by_id() -> None:
    """Two processes may have created them at once."""
    values = MemoryKeyedValues()
    keys = ApiKeys(values)
    _, first = await keys.create("web")
    (stored,) = await values.items(KIND)
    await values.put(KIND, "0" * 64, {**stored.value, "id": "key_2"})
    with pytest.raises(ConfigError, match="are called 'web'; revoke them by their ids"):
        await keys.revoke("web")
    assert (await keys.revoke("key_2")).id == "key_2"
    assert (await keys.revoke("web")).id == first.id


async def test_an_expired_key_can_be_revoked_and_its_name_used_again(keys: ApiKeys) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    _, expired = await keys.create("web", expires_at=past)
    assert not await keys.any_active()
    _, active = await keys.create("web")
    assert await keys.any_active()
    assert [(await keys.revoke("web")).id for _ in range(2)] == [active.id, expired.id]


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


async def test_a_key_of_another_process_counts_at_once(tmp_path: Path) -> None:
    async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as kb:
        keys = ApiKeys(kb.store.keyed_values)
        assert not await keys.exist()
        async with AsyncKnowledgeBase(tmp_path / "kb.db", embedder=HashEmbedder()) as other:
            secret, _ = await ApiKeys(other.store.keyed_values).create("first")
        assert await keys.exist()
        assert await keys.access(secret)
