"""A base goes to a server and comes back as it was."""

from __future__ import annotations

from pathlib import Path

from lagotto.base.copy import copy_base
from lagotto.cli import main
from lagotto.stores.postgres.store import PostgresStore
from tests.base.test_copy import ALL, answers, check_killed_copies, contents, fill, opened, place
from tests.stores.sqlite.bases import made


async def test_there_and_back(tmp_path: Path, location: str) -> None:
    source, target = place(tmp_path, "tantivy", "a"), place(tmp_path, "tantivy", "b")
    async with opened(source), opened(PostgresStore(location)) as server, opened(target):
        await fill(source)
        there = await copy_base(source, server)
        assert (there.copied, there.verified) == (len(ALL), len(ALL))
        assert await contents(server) == await contents(source)
        assert "problem" not in [finding.level for finding in await server.check()]
        assert (await copy_base(source, server)).unchanged == len(ALL)
        assert (await copy_base(server, target)).verified == len(ALL)
        assert await contents(target) == await contents(source)
    assert await answers(target) == await answers(source)
    ranks = [(chunk_id, rank) for chunk_id, rank, _ in await answers(source)]
    found = await answers(PostgresStore(location))
    assert [(chunk_id, rank) for chunk_id, rank, _ in found] == ranks


async def test_a_killed_copy_is_not_a_base(tmp_path: Path, location: str) -> None:
    async with opened(place(tmp_path, "tantivy", "a")) as source:
        await fill(source)
    await check_killed_copies(tmp_path / "a.db", location, kill_at=(0, 3))


def test_on_the_command_line(tmp_path: Path, location: str) -> None:
    made(tmp_path / "kb.db")
    assert main(["copy", str(tmp_path / "kb.db"), location]) == 0
    assert main(["--kb", location, "doctor"]) == 0
    assert main(["copy", location, str(tmp_path / "back.db")]) == 0
