"""An argument that no base can hold is not found, or refused; it never means damage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagotto.base.blocking import KnowledgeBase
from lagotto.documents import Document
from lagotto.errors import CitationError, ConfigError
from lagotto.stores.registry import create_store
from lagotto.testing.hash_embedder import HashEmbedder

SURROGATES = ("\ud800", "a\udcff", "\udfff\ud800", "a\0b")


@pytest.fixture(
    params=[
        "memory",
        "tantivy",
        "fts5",
    ]
)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeBase]:
    """A base with a document."""
    if request.param == "memory":
        yield from filled(":memory:")
    else:
        yield from filled(str(tmp_path / "kb.db"), text_index=request.param)


def filled(location: str, text_index: str | None = None) -> Iterator[KnowledgeBase]:
    """An open base with a document."""
    with KnowledgeBase(location, embedder=HashEmbedder(), text_index=text_index) as base:
        base.add(Document(id="a", text="The white truffle ripens.", metadata={"year": 2024}))
        yield base


@pytest.mark.parametrize("name", SURROGATES)
def test_a_name_that_cannot_be_stored_is_not_found(base: KnowledgeBase, name: str) -> None:
    assert base.get(name) is None
    assert base.get("a", collection=name) is None
    assert base.chunks(name) == []
    assert base.remove(name) == []
    assert base.documents(filters={"document_id": name}) == []
    assert base.documents(filters={name: "x"}) == []
    assert base.documents(collection=name) == []
    assert len(base.retrieve("truffle", filters={"source": {"$ne": name}})) == 1
    assert base.why_not("truffle", name).rank is None
    with pytest.raises(CitationError, match="no such document"):
        base.resolve(f"default/{name}#0-3")
    assert base.get("a") is not None


@pytest.mark.parametrize("name", SURROGATES)
def test_a_query_of_any_text_is_answered(base: KnowledgeBase, name: str) -> None:
    for query in (name, f"truffle {name}", f'"{name} truffle"'):
        base.retrieve(query)
        base.retrieve(query, mode="keyword", fuzzy={"mode": "always"})
        base.context(query)
    assert base.retrieve(f"truffle {name}")[0].document_id == "a"


def test_a_collection_needs_a_name_that_can_be_stored(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("A text.")
    for verb in (base.add, base.sync):
        with pytest.raises(ConfigError, match="not valid Unicode text"):
            verb(tmp_path / "notes", collection="\udcff")


async def test_the_store_itself_does_not_call_it_damage(tmp_path: Path) -> None:
    store = create_store(tmp_path / "kb.db")
    await store.open()
    with pytest.raises(ConfigError, match="not valid Unicode text"):
        await store.get("default", "\ud800")
    await store.close()


@pytest.mark.parametrize("path", ["x" * 5_000, "a\0b", "b\udcff.db", "/".join(["d" * 200] * 50)])
def test_a_path_that_no_file_can_have(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        KnowledgeBase(f"{tmp_path}/{path}", embedder=HashEmbedder())
    assert len(str(told.value)) < 500
    assert list(tmp_path.iterdir()) == []


CITATION = b"default/\xff#0-3"
COMMANDS = [
    (2, [b"show", CITATION]),
    (2, [b"show", b"\xff"]),
    (2, [b"show", b"a", b"--collection", b"\xff"]),
    (2, [b"add", b"notes", b"--collection", b"\xff"]),
    (2, [b"sync", b"notes", b"--collection", b"\xff"]),
    (2, [b"remove", b"--yes", b"\xff"]),
    (2, [b"retrieve", b"x", b"--collection", b"\xff"]),
    (2, [b"retrieve", b"truffle", b"--why-not", b"\xff"]),
    (0, [b"retrieve", b"truffle \xff", b"--json"]),
    (2, [b"retrieve", b"x", b"--prefs", b"deep.toml"]),
    (2, [b"retrieve", b"x", b"--prefs", b"\xff"]),
    (2, [b"--kb", b"x" * 5_000, b"info"]),
    (2, [b"--kb", b"x" * 5_000, b"doctor"]),
    (2, [b"--kb", b"x" * 5_000, b"add", b"notes"]),
    (2, [b"--kb", b"b\xff.db", b"add", b"notes"]),
    (2, [b"copy", b"kb.db", b"b\xff.db"]),
    (2, [b"copy", b"kb.db", b"x" * 5_000]),
]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="arguments are text there")
def test_arguments_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("The white truffle ripens.\n")
    (tmp_path / "deep.toml").write_text("a=" + "[" * 50_000)
    lagotto = [sys.executable.encode(), b"-m", b"lagotto"]
    environment = {**os.environ, "LAGOTTO_KB": "kb.db"}
    filled = [*lagotto, b"add", b"notes"]
    subprocess.run(filled, cwd=tmp_path, env=environment, check=True, capture_output=True)
    for code, words in COMMANDS:
        done = subprocess.run(
            [*lagotto, *words], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert done.returncode == code, (words[:4], done.stderr[-500:])
        assert b"damaged" not in done.stdout + done.stderr
        assert b"unexpected" not in done.stderr
    assert not list(tmp_path.glob("b*"))
