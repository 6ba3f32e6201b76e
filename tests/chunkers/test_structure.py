"""The context of chunks that begin below the header row of their table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lagotto import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.documents import Document
from lagotto.embedders.chunk_embedder import ChunkEmbedder
from lagotto.readers import load
from lagotto.rerankers.base import Candidate, Judgement, ScoreScale, Verdict
from lagotto.testing.hash_embedder import HashEmbedder

EMBEDDER = HashEmbedder(dimension=32)
ROWS = "\n".join(f"| S-{n} | {n} bar |" for n in range(60))


def read(tmp_path: Path, text: str, name: str = "table.md") -> Document:
    path = tmp_path / name
    path.write_text(text)
    (document,) = (item for item in load(path) if isinstance(item, Document))
    return document


def contexts(document: Document) -> set[str]:
    """Those of the chunks that begin with a row."""
    chunker = CHUNKERS.create("section:48/0", tokenizer=EMBEDDER.tokenizer)
    first, *rest = chunker.chunk(document)
    assert first.context == ""
    assert len(rest) > 3
    assert all(document.text[one.start : one.end] == one.text for one in rest)
    return {chunk.context for chunk in rest if chunk.text.startswith("| S-")}


@pytest.mark.parametrize(
    ("before", "header", "wanted"),
    [
        ("Alarm levels:\n\n", "| Sensor | Pressure |", "Alarm levels:\n| Sensor | Pressure |"),
        ("", "| Sensor | Pressure |", "| Sensor | Pressure |"),
        ("# Alarm levels\n\n", "| Sensor | Pressure |", "| Sensor | Pressure |"),
        ("Alarm\n=====\n\n", "| Sensor | Pressure |", "| Sensor | Pressure |"),
        ("Levels:\n\n", "| Sensor | 2023 |", "Levels:\n| Sensor | 2023 |"),
        ("Levels:\n\n", "| S-1000 | 7 bar |", "Levels:"),  # a row like the others
        ("one " * 99 + "end.\n\n", "| Sensor | Bar |", "one " * 48 + "end.\n| Sensor | Bar |"),
    ],
)
def test_the_line_before_and_the_header_row(
    tmp_path: Path, before: str, header: str, wanted: str
) -> None:
    text = f"{before}{header}\n| --- | --- |\n{ROWS}\n"
    assert contexts(read(tmp_path, text)) == {wanted}


def test_text_behind_the_table_has_none(tmp_path: Path) -> None:
    text = f"| Sensor | Bar |\n| --- | --- |\n{ROWS}\n\n" + "Plain text about dogs. " * 40
    document = read(tmp_path, text)
    chunker = CHUNKERS.create("section:48/0", tokenizer=EMBEDDER.tokenizer)
    behind = [one for one in chunker.chunk(document) if "S-" not in one.text]
    assert {one.context for one in behind} == {""}


async def test_it_is_embedded_and_decides_which_vectors_are_reused(tmp_path: Path) -> None:
    vectors = ChunkEmbedder(EMBEDDER)
    chunker = CHUNKERS.create("section:48/0", tokenizer=EMBEDDER.tokenizer)
    made = []
    for unit in ("Pressure", "Voltage"):
        document = read(tmp_path, f"| Sensor | {unit} |\n| --- | --- |\n{ROWS}\n")
        chunk = chunker.chunk(document)[2]
        (rows,) = await vectors.embed([(document, [chunk])])
        made.append((chunk.text, vectors.text_of(document, chunk), rows[0].tolist()))
    (text, name, vector), (other_text, other_name, other_vector) = made
    assert text == other_text
    assert name != other_name
    assert vector != other_vector


async def test_a_reranker_and_a_pack_see_it_above_a_passage(tmp_path: Path) -> None:
    (tmp_path / "table.md").write_text(f"| Sensor | Bar |\n| --- | --- |\n{ROWS}\n")
    seen: list[Candidate] = []

    class Reader:
        id = "reader"
        scale = ScoreScale()
        reads_only_text = False

        async def rerank(self, query: str, candidates: Sequence[Candidate]) -> Judgement:
            seen.extend(candidates)
            return Judgement([Verdict(score=one.score) for one in candidates])

        async def close(self) -> None: ...

    base = AsyncKnowledgeBase(
        ":memory:", embedder=EMBEDDER, chunker="section:48/0", reranker=Reader()
    )
    async with base as kb:
        await kb.add(str(tmp_path))
        pack = await kb.context("S-41", max_tokens=100, context={"select": "roles"}, top_k=1)
    assert len(pack.citations) == 1
    assert "| Sensor | Bar |\n| S-" in pack.context_pack
    assert {one.context for one in seen if one.text.startswith("| S-")} == {"| Sensor | Bar |"}
