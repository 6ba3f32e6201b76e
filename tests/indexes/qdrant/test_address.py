"""Addresses of indexes on Qdrant servers."""

from __future__ import annotations

import pytest

from lagotto.errors import ConfigError
from lagotto.indexes.qdrant.address import QdrantAddress, parse_address


def test_an_address_with_everything() -> None:
    address = parse_address(
        "qdrant://db.example:7000/team-1?shards=3&replicas=3&write_consistency=3&https=true"
        "&grpc_port=7007&quantize=int8&sharding=collection"
    )
    assert address == QdrantAddress(
        host="db.example",
        port=7000,
        grpc_port=7007,
        https=True,
        prefix="team-1",
        shards=3,
        replicas=3,
        write_consistency=3,
        quantize="int8",
        sharding="collection",
    )
    assert address.shown == "qdrant://db.example:7000"
    assert address.name("text-1") == "lagotto-team-1-text-1"


@pytest.mark.parametrize("text", ["", "qdrant", "qdrant://localhost", "qdrant://localhost:6333/"])
def test_the_usual_address(text: str) -> None:
    assert parse_address(text) == QdrantAddress()


@pytest.mark.parametrize(("replicas", "written"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_a_write_survives_the_loss_of_some_replicas(replicas: int, written: int) -> None:
    address = parse_address(f"qdrant://localhost?replicas={replicas}")
    assert address.write_consistency == written


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("qdrant://host/?shard=3", "did you mean"),
        ("qdrant://host/?api_key=hunter2", "unknown option 'api_key'"),
        ("qdrant://hunter2@host", "QDRANT_API_KEY"),
        ("qdrant://user:hunter2@host", "QDRANT_API_KEY"),
        ("qdrant://host/?shards=0", "shards=0"),
        ("qdrant://host/?shards=x", "shards=x"),
        ("qdrant://host/?shards=1&shards=2", "twice"),
        ("qdrant://host/?quantize=4", "one of none, int8, binary"),
        ("qdrant://host/?https=yes", "one of true, false"),
        ("qdrant://host/a/b", "prefix"),
        ("qdrant://host:port", "host or port"),
        ("http://host", "not the address"),
        ("qdrant://", "not the address"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        parse_address(text)
    assert "hunter2" not in str(caught.value)
