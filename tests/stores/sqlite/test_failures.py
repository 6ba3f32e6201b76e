"""A full disk, no permission to write, other writers: a clear error, and nothing lost."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lagotto.documents import Document
from lagotto.errors import StoreBusyError, StoreFullError, StoreReadOnlyError
from lagotto.stores.sqlite import database
from lagotto.testing.stores import entry, semantic_ids
from tests.child_process import child, said
from tests.stores.sqlite.bases import answers, document, documents, made, opened, sqlite_store

pytestmark = pytest.mark.slow

PAGE = 8192


SEARCHES_ON_A_FULL_DISK = """
import json, resource, signal, sys, time
from pathlib import Path
from lagotto.indexes import overlay
from tests.stores.sqlite.bases import opened

overlay.MOST_CHUNKS = int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with opened(Path(sys.argv[1])) as base:
    def find(word):
        hits = base.retrieve(word, mode="keyword", fuzzy={"mode": "off"})
        return sorted({hit.document_id for hit in hits})
    base.info()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    find("unique3x")
    updater = base.base._record.updater
    while updater._thread is not None:
        time.sleep(0.01)
    hits = base.retrieve("the dog", mode="semantic", top_k=100)
    said = {
        "old": find("unique3x"), "new": find("unique6x"), "removed": find("unique2x"),
        "semantic": len({hit.document_id for hit in hits}),
        "degraded": " ".join(base.retrieve("unique3x").degraded),
    }
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps(said), flush=True)
"""


ADDS_TO_A_FILE_THAT_MAY_NOT_GROW = """
import resource, sys
from pathlib import Path
from tests.stores.sqlite.bases import documents, opened
from lagotto.readers.language import detect_language

detect_language("Das Modell wird entpackt, solange Platz ist.")
with opened(Path(sys.argv[1])) as base:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    try:
        base.add(*documents(150))
    except Exception as exc:
        print(type(exc).__name__)
"""


@contextmanager
def with_pragma(pragma: str) -> Iterator[None]:
    """Set a PRAGMA on every connection that is opened meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "PRAGMAS", (*database.PRAGMAS, pragma))
        yield


class TestFullDisk:
    @pytest.mark.parametrize("text_index", ["tantivy", "fts5"])
    def test_nothing_is_lost(self, path: Path, text_index: str) -> None:
        made(path, text_index=text_index, count=5)
        room = f"max_page_count = {path.stat().st_size // PAGE + 30}"
        with with_pragma(room), opened(path) as base:
            with pytest.raises(StoreFullError, match="full"):
                base.add(*documents(150))
            stored = base.info().documents
            assert 5 <= stored < 150
            assert base.retrieve("unique3x")[0].document_id == "d003"
        with opened(path) as base:
            assert base.info().documents == stored
            base.add(*documents(150))
            assert base.info().documents == 150
            assert base.retrieve("unique149x", mode="keyword")[0].document_id == "d149"

    def test_a_file_that_may_not_grow(self, path: Path) -> None:
        before = made(path, count=20)
        with child(ADDS_TO_A_FILE_THAT_MAY_NOT_GROW, path) as process:
            assert said(process) == "StoreFullError"
            assert process.wait() == 0
        with opened(path) as base:
            assert base.info().documents >= 20
            assert answers(base)[0][:2] == before[0][:2]  # its score depends on what was added
            base.add(*documents(150))
            assert base.info().documents == 150

    @pytest.mark.parametrize("most_chunks", [2_000, 2])
    @pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "never indexed"])
    def test_searches_go_on_from_what_is_there(
        self, path: Path, most_chunks: int, indexed: bool
    ) -> None:
        """The text index can't grow; what it lacks is searched from the record, if it is little."""
        if indexed:
            made(path, count=5)
        with opened(path) as base:
            base.add(*documents(7))
            base.remove("d002")
        with child(SEARCHES_ON_A_FULL_DISK, path, most_chunks) as process:
            found = json.loads(said(process))
            assert process.wait() == 0
        new = ["d006"] if most_chunks > 2 else []
        assert found["new"] == new
        assert found["old"] == (["d003"] if indexed else new and ["d003"])
        assert found["removed"] == []
        assert found["semantic"] == 6
        assert "free some disk space" in found["degraded"]
        assert ("searched without it" if new else "not searched for words") in found["degraded"]
        with opened(path) as base:
            assert base.retrieve("unique6x", mode="keyword")[0].document_id == "d006"
            assert not base.retrieve("unique6x").degraded

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
                assert "permission to write" in line
                assert process.wait() == 0
            Path(folder).chmod(0o755)
            with opened(Path(folder) / "kb.db") as base:
                assert base.info().documents == 20

    def test_an_index_without_permissions(self) -> None:
        program = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from lagotto.errors import StoreReadOnlyError\n"
            "from tests.stores.sqlite.bases import document, made, opened\n"
            "folder = Path(sys.argv[1])\n"
            "made(folder / 'kb.db', count=3)\n"
            "with opened(folder / 'kb.db') as base: base.search('dog')\n"
            "[index] = (folder / 'kb.db.index').glob('text-*')\n"
            "index.chmod(0)\n"
            "if os.getuid() == 0:\n"
            "    for path in (folder, *folder.rglob('*')): os.chown(path, 65534, 65534)\n"
            "    os.setuid(65534)\n"
            "with opened(folder / 'kb.db') as base:\n"
            "    print(base.add(document(7)).added, flush=True)\n"
            "    for search in (base.retrieve, base.search, base.context):\n"
            "        try:\n"
            "            search('dog')\n"
            "        except StoreReadOnlyError as exc:\n"
            "            print('refused:', exc, flush=True)\n"
            "index.chmod(0o755)\n"
        )
        with tempfile.TemporaryDirectory() as folder, child(program, folder) as process:
            assert said(process) == "1"
            assert ["check its permissions" in said(process) for _ in range(3)] == [True] * 3
            assert process.wait() == 0

    def test_a_file_that_sqlite_may_not_write(self, path: Path) -> None:
        made(path, count=3)
        with with_pragma("query_only = ON"), opened(path) as base:
            with pytest.raises(StoreReadOnlyError, match="permission to write"):
                base.add(document(7))
            assert base.retrieve("unique1x")[0].document_id == "d001"


class TestBusy:
    async def test_waits_then_says_so(self, path: Path) -> None:
        async with sqlite_store(path, busy_timeout=0.2) as store:
            await store.write([await entry(Document(id="a", text="First."))])
            second = await entry(Document(id="b", text="Second."))
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusyError, match="another process is writing"):
                    await store.write([second])
                assert await store.get("default", "a")
                assert await semantic_ids(store, "anything") == ["a"]
                other.execute("COMMIT")
            await store.write([second])
            assert (await store.info()).documents == 2

    async def test_opening_needs_no_turn(self, path: Path) -> None:
        made(path, count=3)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with sqlite_store(path, busy_timeout=0.2) as store:
                assert (await store.info()).documents == 3


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
