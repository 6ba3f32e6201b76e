"""Addresses of indexes on Qdrant servers."""

from __future__ import annotations

import pytest

from lagotto.errors import ConfigError
from lagotto.indexes.qdrant.client import NodeAddress, QdrantAddress, parse_address


def test_an_address_with_everything() -> None:
    address = parse_address(
        "qdrant://db.example:7000/team-1?shards=3&replicas=3&write_consistency=3&https=true"
        "&grpc_port=7007&quantize=int8&sharding=collection"
    )
    assert address == QdrantAddress(
        nodes=(NodeAddress("db.example", 7000, 7007),),
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


def test_several_nodes_of_a_cluster() -> None:
    address = parse_address("qdrant://q1.example,q2.example:7000,[::1]:8000/kb?replicas=2")
    assert address.nodes == (
        NodeAddress("q1.example", 6333, 6334),
        NodeAddress("q2.example", 7000, 7001),
        NodeAddress("::1", 8000, 8001),
    )
    assert address.shown == "qdrant://q1.example:6333,q2.example:7000,[::1]:8000"
    assert address.prefix == "kb"


@pytest.mark.parametrize(("given", "ports"), [("7007", [7007, 7007]), ("7,8", [7, 8])])
def test_ports_of_grpc_for_several_nodes(given: str, ports: list[int]) -> None:
    address = parse_address(f"qdrant://one,two/?grpc_port={given}")
    assert [node.grpc_port for node in address.nodes] == ports


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
        ("qdrant://host/?quantize=4", "one of none, int8"),
        ("qdrant://host/?https=yes", "one of false, true"),
        ("qdrant://host/a/b", "prefix"),
        ("qdrant://host:port", "host or port"),
        ("qdrant://host:0", "host or port"),
        ("qdrant://one,,two", "host or port"),
        ("qdrant://one,hunter2@two", "QDRANT_API_KEY"),
        ("qdrant://one,two,three/?grpc_port=7,8", "3 nodes and 2 values of grpc_port"),
        ("qdrant://one,two/?grpc_port=7,x", "grpc_port=x"),
        ("http://host", "not the address"),
        ("qdrant://", "not the address"),
    ],
)
def test_what_is_wrong_is_said_without_secrets(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        parse_address(text)
    assert "hunter2" not in str(caught.value)
