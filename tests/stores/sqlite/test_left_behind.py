"""What killed processes and other bases left in the folder does no harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.child_process import child, said
from tests.stores.sqlite.bases import answers, documents, made, opened

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kb.db"


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
            found = base.retrieve("unique15x", mode="keyword")
            assert "d015" not in {hit.document_id for hit in found}
            assert "the text index belongs to another history of the base" in caplog.text
            base.add(*reversed(documents(20)[10:]))
            base.retrieve("unique15x")
        with opened(path) as base:  # with indexes that have caught up
            assert answers(base) == made(path.with_name("other.db"))
