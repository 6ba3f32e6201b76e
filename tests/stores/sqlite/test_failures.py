"""Whatever happens to the file: a clear error or the right answer, and nothing lost."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from lagotto.documents import Document
from lagotto.errors import (
    NotABaseError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from lagotto.filters import And
from lagotto.stores.migrations import migrate
from lagotto.stores.sqlite import database
from lagotto.stores.sqlite.database import create_engine
from lagotto.stores.sqlite.store import SqliteStore
from lagotto.stores.tables import SCHEMA_VERSION
from lagotto.testing.stores import entry
from tests.stores.sqlite.bases import answers, child, document, documents, made, opened, said

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


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
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE bookmarks (url)")
        self.refused(path, NotABaseError, "SQLite file, but not a Lagotto base")

    def test_a_folder(self, tmp_path: Path) -> None:
        self.refused(tmp_path, NotABaseError, "is a folder")

    def test_no_folder(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "nowhere" / "kb.db", StoreError, "no folder .*nowhere; create it")

    def test_a_newer_version(self, path: Path) -> None:
        made(path, count=1)
        with closing(sqlite3.connect(path)) as file:
            file.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        self.refused(path, NotABaseError, "newer Lagotto.*upgrade")

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
    def test_steps_are_taken_in_order(self, path: Path) -> None:
        made(path, count=1)
        engine = create_engine(path)
        taken: list[int] = []

        def step(number: int) -> Callable[[Connection], None]:
            def upgrade(connection: Connection) -> None:
                connection.exec_driver_sql(f"ALTER TABLE document ADD COLUMN extra{number} TEXT")
                taken.append(number)

            return upgrade

        with engine.begin() as connection:
            migrate(connection, 1, steps={1: step(1), 2: step(2), 3: step(3)}, target=3)
        engine.dispose()
        assert taken == [1, 2]

    def test_an_older_base_is_brought_up_to_date(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = made(path, count=5)

        def upgrade(connection: Connection, version: int) -> None:
            migrate(connection, version, steps={1: _add_column}, target=2)

        monkeypatch.setattr(database, "migrate", upgrade)
        monkeypatch.setattr(database, "SCHEMA_VERSION", 2)
        monkeypatch.setattr("lagotto.stores.sqlite.store.SCHEMA_VERSION", 2)
        with opened(path) as base:
            assert answers(base) == before
        with closing(sqlite3.connect(path)) as file:
            assert file.execute("PRAGMA user_version").fetchone() == (2,)
            assert file.execute("SELECT count(extra) FROM document").fetchone() == (5,)

    def test_a_step_that_fails_changes_nothing(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made(path, count=5)

        def upgrade(connection: Connection, version: int) -> None:
            _add_column(connection)
            connection.exec_driver_sql("SELECT * FROM nowhere")

        with monkeypatch.context() as newer:
            newer.setattr(database, "migrate", upgrade)
            newer.setattr(database, "SCHEMA_VERSION", 2)
            newer.setattr("lagotto.stores.sqlite.store.SCHEMA_VERSION", 2)
            with pytest.raises(StoreError, match="no such table"):
                opened(path)
        with opened(path) as base:
            assert base.info().documents == 5


def _add_column(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE document ADD COLUMN extra TEXT DEFAULT 'new'")


class TestFullDisk:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_nothing_is_lost(self, path: Path, text_index: str) -> None:
        made(path, text_index=text_index, count=5)
        with opened(path) as base:
            store = base.base._store
            assert isinstance(store, SqliteStore)
            engine = store._opened()
            engine.dispose()

            @event.listens_for(engine, "connect")
            def small(connection: Any, _record: object) -> None:
                connection.execute(f"PRAGMA max_page_count = {path.stat().st_size // PAGE + 30}")

            with pytest.raises(StoreFullError, match="full"):
                base.add(*documents(400))
            stored = base.info().documents
            assert 5 <= stored < 400
            assert base.retrieve("unique3x")[0].document_id == "d003"
        with opened(path) as base:
            assert base.info().documents == stored
            base.add(*documents(400))
            assert base.info().documents == 400
            assert base.retrieve("unique399x", mode="keyword")[0].document_id == "d399"

    def test_a_file_that_may_not_grow(self, path: Path) -> None:
        before = made(path, count=20)
        program = (
            "import resource, sys\n"
            "from pathlib import Path\n"
            "from tests.stores.sqlite.bases import documents, opened\n"
            "with opened(Path(sys.argv[1])) as base:\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
            "    try:\n"
            "        base.add(*documents(400))\n"
            "    except Exception as exc:\n"
            "        print(type(exc).__name__)\n"
        )
        with child(program, path) as process:
            assert said(process) == "StoreFullError"
            assert process.wait() == 0
        with opened(path) as base:
            assert base.info().documents >= 20
            assert answers(base)[0] == before[0]
            base.add(*documents(400))
            assert base.info().documents == 400

    def test_searches_go_on_without_room_for_vectors(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with opened(path, text_index="fts5") as base:
            base.add(*documents(5))
            path.with_name("kb.db.index").write_text("in the way")
            base.add(Document(id="long", text="Many words here. " * 20_000))
            assert base.retrieve("unique3x")[0].document_id == "d003"
        assert "vector index is not saved" in caplog.text
        with opened(path) as base:
            assert base.retrieve("unique3x")[0].document_id == "d003"


class TestReadOnly:
    def test_no_right_to_write(self) -> None:
        program = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from lagotto.errors import StoreReadOnlyError\n"
            "from tests.stores.sqlite.bases import documents, made, opened\n"
            "folder = Path(sys.argv[1])\n"
            "made(folder / 'kb.db')\n"  # also loads all modules, while there is a right to
            "(folder / 'kb.db').chmod(0o444)\n"
            "folder.chmod(0o555)\n"
            "if os.getuid() == 0:\n"
            "    os.setuid(65534)\n"
            "try:\n"
            "    with opened(folder / 'kb.db') as base:\n"
            "        base.add(*documents(30))\n"
            "except StoreReadOnlyError as exc:\n"
            "    print('refused:', exc)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            with child(program, folder) as process:
                assert "refused:" in (line := said(process))
                assert "right to write" in line
                assert process.wait() == 0
            Path(folder).chmod(0o755)
            with opened(Path(folder) / "kb.db") as base:
                assert base.info().documents == 20

    def test_a_file_that_sqlite_may_not_write(self, path: Path) -> None:
        made(path, count=3)
        with opened(path) as base:
            store = base.base._store
            assert isinstance(store, SqliteStore)
            engine = store._opened()
            engine.dispose()

            @event.listens_for(engine, "connect")
            def only_read(connection: Any, _record: object) -> None:
                connection.execute("PRAGMA query_only = ON")

            with pytest.raises(StoreReadOnlyError, match="right to write"):
                base.add(document(7))
            assert base.retrieve("unique1x")[0].document_id == "d001"


class TestBusy:
    async def test_waits_then_says_so(self, path: Path) -> None:
        store = SqliteStore(path, busy_timeout=0.2)
        await store.open()
        try:
            await store.write([await entry(Document(id="a", text="First."))])
            second = await entry(Document(id="b", text="Second."))
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusyError, match="another process is writing"):
                    await store.write([second])
                assert await store.get("default", "a")
                async with store.view(And()) as view:
                    assert len(await view.passages(await _all_keys(view))) == 1
                other.execute("COMMIT")
            await store.write([second])
            assert (await store.info()).documents == 2
        finally:
            await store.close()

    async def test_opening_needs_no_turn(self, path: Path) -> None:
        made(path, count=3)
        store = SqliteStore(path, busy_timeout=0.2)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await store.open()
            assert (await store.info()).documents == 3
            await store.close()


async def _all_keys(view: Any) -> Any:
    from lagotto.testing.hash_embedder import HashEmbedder

    (vector,) = await HashEmbedder(dimension=32).embed(["all"], role="query")
    return (await view.semantic(vector, k=50)).keys


class TestLeftBehind:
    def test_a_wal_of_a_killed_process(self, path: Path) -> None:
        program = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from tests.stores.sqlite.bases import answers, documents, opened\n"
            "with opened(Path(sys.argv[1])) as base:\n"
            "    base.add(*documents(20))\n"
            "    print('stored', flush=True)\n"
            "    time.sleep(60)\n"
        )
        with child(program, path) as process:
            assert said(process) == "stored"
        assert path.with_name("kb.db-wal").stat().st_size > 0
        expected = made(path.with_name("other.db"))
        with opened(path) as base:
            assert answers(base) == expected

    def test_indexes_of_a_base_that_had_the_name(self, path: Path) -> None:
        made(path, count=20)
        path.unlink()
        with opened(path) as base:
            base.add(*reversed(documents(20)))
            assert answers(base) == made(path.with_name("other.db"))

    def test_indexes_of_another_base(self, path: Path) -> None:
        made(path, count=5)
        other = path.with_name("other.db")
        expected = made(other, count=20)
        shutil.copy(other, path)
        with opened(path) as base:
            assert answers(base) == expected

    def test_indexes_newer_than_a_base_put_back(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        made(path, count=10)
        shutil.copy(path, path.with_name("backup"))
        with opened(path) as base:
            base.add(*documents(20)[10:])
            assert base.retrieve("unique15x")[0].document_id == "d015"
        shutil.copy(path.with_name("backup"), path)
        with opened(path) as base:
            assert "older than its indexes" in caplog.text
            base.add(*reversed(documents(20)[10:]))
            assert answers(base) == made(path.with_name("other.db"))


class TestDamagedFile:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_a_page_of_garbage(self, path: Path, text_index: str) -> None:
        """Every page in turn: an error of ours, or the right answers."""
        made(path, text_index=text_index, count=6)
        long = Document(id="long", text="Word by word. " * 1_500, metadata={"a": "b" * 9_000})
        with opened(path) as base:
            base.add(long)
            right = answers(base)
        whole = path.read_bytes()
        garbage = bytes((7 * place + 3) % 251 for place in range(PAGE))
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            path.write_bytes(whole[: page * PAGE] + garbage + whole[(page + 1) * PAGE :])
            try:
                with opened(path) as base:
                    assert answers(base) == right
                    assert [base.get(item.id) for item in documents(6)] == documents(6)
                    assert base.get("long") == long
            except StoreDamagedError:
                errors += 1
        assert errors > 5

    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_bytes_in_the_middle(self, path: Path, text_index: str) -> None:
        """SQLite has no checksums, so some go unseen; what is noticed is an error of ours."""
        made(path, text_index=text_index, count=6)
        whole = path.read_bytes()
        errors = 0
        for page in range(1, len(whole) // PAGE):
            shutil.rmtree(path.with_name("kb.db.index"), ignore_errors=True)
            end = (page + 1) * PAGE - 50
            path.write_bytes(whole[: end - 300] + b"\x02" * 300 + whole[end:])
            try:
                with opened(path) as base:
                    answers(base)
                    for item in documents(6):
                        base.get(item.id)
                        base.chunks(item.id)
                    base.documents(where={"version": 1})
                    base.add(*documents(7))
            except StoreDamagedError:
                errors += 1
        assert errors > 2

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_a_file_cut_off(self, path: Path, share: float) -> None:
        made(path, count=20)
        whole = path.read_bytes()
        shutil.rmtree(path.with_name("kb.db.index"))
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(StoreDamagedError, match="damaged"), opened(path) as base:
            answers(base)


def test_a_base_that_nobody_closes_does_not_hang(path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.stores.sqlite.bases import answers, documents, opened\n"
        "base = opened(Path(sys.argv[1]))\n"
        "base.add(*documents(3))\n"
        "print(len(answers(base)) > 0)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.strip(), done.stderr) == ("True", "")
