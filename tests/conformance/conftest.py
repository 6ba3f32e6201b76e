"""The server of the tests of its store."""

from __future__ import annotations

from tests.stores.postgres.conftest import location, server_url

__all__ = ["location", "server_url"]
