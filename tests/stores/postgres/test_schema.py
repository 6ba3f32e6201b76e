"""A command that fails leaves no empty base on a server, and nothing else is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.stores.postgres.schema import discard_if_empty, is_missing
from lagotto.testing.stores import entry
from tests.cli.running import run
from tests.stores.postgres.schemas import opened, own_database, sql


@pytest.fixture
def database(server_url: str) -> Iterator[str]:
    with own_database(server_url) as address:
        yield address


def tables(database: str) -> set[str]:
    found = sql(database, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {name for (name,) in found}


def test_a_command_that_fails_leaves_no_tables(database: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 broken")
    done = run("--kb", database, "add", broken)
    assert done.code == 3, done.err
    assert tables(database) == set()


async def test_a_base_in_use_is_kept(database: str) -> None:
    async with opened(database) as store:
        await store.config()  # as every command does at once
        assert not await discard_if_empty(database)
    assert not await is_missing(database)
    assert await discard_if_empty(database)
    assert await is_missing(database)
    assert not await discard_if_empty(database)


async def test_a_base_that_has_or_had_a_document_is_kept(database: str) -> None:
    async with opened(database) as store:
        await store.write([await entry(Document(id="a", text="Oaks grow here."))])
    assert not await discard_if_empty(database)
    async with opened(database) as store:
        assert (await store.info()).documents == 1


def test_a_base_that_was_there_before_is_kept(database: str, tmp_path: Path) -> None:
    note, broken = tmp_path / "note.md", tmp_path / "broken.pdf"
    note.write_text("Oaks grow here.")
    broken.write_bytes(b"%PDF-1.7 broken")
    assert run("--kb", database, "add", note).code == 0
    before = tables(database)
    assert run("--kb", database, "add", broken).code == 3
    assert tables(database) == before


async def test_chunks_of_schema_1_have_no_context(database: str) -> None:
    async with opened(database) as store:
        await store.write([await entry(Document(id="a", text="Oaks grow here."))])
    sql(database, "ALTER TABLE chunk DROP COLUMN context")
    sql(database, "UPDATE setting SET value = '1' WHERE name = 'schema'")
    async with opened(database) as store:
        await store.write([await entry(Document(id="b", text="Hazels grow here."))])
        (chunk,) = await store.chunks("default", "a")
        assert chunk.context == ""
