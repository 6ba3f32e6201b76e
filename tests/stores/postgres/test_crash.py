"""A few rounds of the campaign on a server: nothing acknowledged is lost, no answer is wrong."""

from __future__ import annotations

from tests.campaign import run_campaign
from tests.stores.postgres.schemas import need_a_server_to_stop


def test_kills_of_clients_and_servers_in_every_operation() -> None:
    need_a_server_to_stop()
    counts = run_campaign("kills", "postgresql,server", count=16)
    for kind in ("postgresql", "server"):
        assert sorted(counts[kind]["kills"].values()) == [1] * 8
