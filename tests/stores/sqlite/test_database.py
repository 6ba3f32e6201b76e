"""What is a base and what is not, and how an older one becomes a newer one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from lagotto.errors import NotABaseError, StoreError
from lagotto.stores import sql
from lagotto.stores.sql import SCHEMA_VERSION
from lagotto.stores.sql.statements import WriteConnection
from lagotto.stores.sqlite import database, store, write
from tests.stores.sqlite.bases import answers, documents, fetch, made, opened, run_sql

NEXT = SCHEMA_VERSION + 1

Step = Callable[[WriteConnection], None]


class TestWhatIsNoBase:
    def refused(self, path: Path, error: type[StoreError], match: str) -> None:
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(error, match=match):
            opened(path)
        if before is not None:
            assert path.read_bytes() == before

    @pytest.mark.parametrize("content", [b"a", b"Dear diary\n" * 500, bytes(range(256)) * 40])
    def test_another_file(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.refused(path, NotABaseError, "not a Lagotto base")

    def test_another_database(self, path: Path) -> None:
        run_sql(path, "CREATE TABLE bookmarks (url)")
        self.refused(path, NotABaseError, "SQLite file, but not a Lagotto base")

    def test_folders(self, path: Path) -> None:
        self.refused(path.parent, NotABaseError, "is a folder")
        self.refused(path.parent / "nowhere" / "kb.db", StoreError, "no folder .*nowhere; create")

    def test_a_newer_version(self, path: Path) -> None:
        made(path, count=1)
        run_sql(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        self.refused(path, NotABaseError, "newer Lagotto.*upgrade")

    @pytest.mark.parametrize("version", [1, 7, 11])
    def test_a_version_before_the_first_release(self, path: Path, version: int) -> None:
        made(path, count=1)
        mark = f"PRAGMA application_id = {database.BEFORE_RELEASE}"
        run_sql(path, mark, f"PRAGMA user_version = {version}")
        self.refused(path, NotABaseError, "`lagotto export .*`lagotto import ")

    def test_an_empty_file_becomes_a_base(self, path: Path) -> None:
        path.touch()
        assert made(path, count=2)

    @pytest.mark.parametrize("name", ["what? #1 100%.db", "[x]*.db", "späße.db", "a'b\"c.db"])
    def test_any_name(self, tmp_path: Path, name: str) -> None:
        before = made(tmp_path / name, count=3)
        assert (tmp_path / name).is_file()
        with opened(tmp_path / name) as base:
            assert answers(base) == before
            assert base.info().bytes_on_disk > (tmp_path / name).stat().st_size

    def test_another_working_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with opened(Path("kb.db")) as base:
            monkeypatch.chdir(elsewhere)
            base.add(*documents(3))
            assert base.retrieve("unique1x")[0].document_id == "d001"
        assert list(elsewhere.iterdir()) == []


class TestMigrations:
    """With a made-up second version."""

    @pytest.fixture
    def newer(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, Step]]:
        steps: dict[int, Step] = {}
        with monkeypatch.context() as patch:
            patch.setattr(sql, "STEPS", steps)
            patch.setattr(write, "migrate", partial(sql.migrate, target=NEXT))
            for module in (sql, write, store):
                patch.setattr(module, "SCHEMA_VERSION", NEXT)
            yield steps

    def test_steps_are_taken_in_order(self, path: Path, newer: dict[int, Step]) -> None:
        made(path, count=1)
        taken: list[int] = []
        newer[2] = lambda _connection: taken.append(2)
        newer[3] = lambda _connection: taken.append(3)
        with closing(database.SqliteDatabase(path)) as file, file.writing() as connection:
            sql.migrate(connection, 1, target=3)
        assert taken == [2, 3]

    def test_an_older_base_is_brought_up_to_date(
        self, path: Path, request: pytest.FixtureRequest
    ) -> None:
        before = made(path, count=5)
        request.getfixturevalue("newer")[NEXT] = _add_column
        with opened(path) as base:
            assert answers(base) == before
        assert fetch(path, "PRAGMA user_version") == [(NEXT,)]
        assert fetch(path, "SELECT count(extra) FROM document") == [(5,)]

    def test_a_step_that_fails_changes_nothing(
        self, path: Path, request: pytest.FixtureRequest
    ) -> None:
        made(path, count=5)

        def fail(connection: WriteConnection) -> None:
            _add_column(connection)
            connection.exec_driver_sql("SELECT * FROM nowhere", ())

        request.getfixturevalue("newer")[NEXT] = fail
        with pytest.raises(StoreError, match="no such table"):
            opened(path)
        assert fetch(path, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
        assert "extra" not in {row[1] for row in fetch(path, "PRAGMA table_info(document)")}


def test_chunks_of_schema_1_have_no_context(path: Path) -> None:
    before = made(path, count=5)
    run_sql(path, "ALTER TABLE chunk DROP COLUMN context", "PRAGMA user_version = 1")
    with opened(path) as base:
        assert answers(base) == before
        base.add(*documents(6))
        assert {chunk.context for chunk in base.chunks("d005")} == {""}
    assert fetch(path, "PRAGMA user_version") == [(SCHEMA_VERSION,)]


def _add_column(connection: WriteConnection) -> None:
    connection.exec_driver_sql("ALTER TABLE document ADD COLUMN extra TEXT DEFAULT 'new'", ())


def test_turning_a_new_file_to_wal_waits_for_a_writer(path: Path) -> None:
    """Two processes that make one base; SQLite's own busy timeout does not apply to this."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE being_made (number)")
        commit = threading.Timer(0.3, other.execute, ("COMMIT",))
        commit.start()
        with closing(database.connect(path, busy_timeout=10)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        commit.join()
    assert mode == "wal"
