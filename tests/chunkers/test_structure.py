"""The context of chunks that begin below the header row of their table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lagotto import AsyncKnowledgeBase
from lagotto.chunkers import CHUNKERS
from lagotto.chunkers.structure import Structure
from lagotto.documents import Block, Document, Heading, Span
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


@pytest.mark.parametrize(
    ("before", "header", "wanted"),
    [
        ("a " * 99 + "to", "Bar", ("a " * 99 + "to", "Bar")),  # 200 characters
        ("a " * 99 + "all", "Bar", ("a " * 98 + "all", "Bar")),
        ("Levels", "Bar " * 50, ("Levels", ("Bar " * 50).strip())),
        ("Levels", "b" * 201, ("Levels", "b" * 200)),
        ("Levels", "Bar 1", ("Levels", "Bar 1")),  # a number in half of the words below, too
        ("Levels", "a 1 2", ("Levels",)),
        ("far" + " " * 995 + "near", "Bar", ("near", "Bar")),
        ("1 2", "Bar", ("Bar",)),
        ("One.\nLevels", "a b c 1 2", ("Levels", "a b c 1 2")),
        ("Levels", "B1", ("Levels",)),
        ("Levels", "7 7", ("Levels",)),
    ],
)
def test_what_rows_are_read_under(before: str, header: str, wanted: tuple[str, ...]) -> None:
    start = len(before) + 1
    below = start + len(header) + 1
    text = f"{before}\n{header}\n" + "7 8\n" * 3
    rows = [Span(start, below), *(Span(below + 4 * n, below + 4 * n + 4) for n in range(3))]
    table = Block(kind="table", start=start, end=len(text), parts=tuple(rows))
    structure = Structure(Document(text=text, blocks=(table,)))
    assert structure.table_context(below) == "\n".join(wanted)
    assert structure.table_context(below - 1) == structure.table_context(len(text)) == ""


@pytest.mark.parametrize(
    ("span", "element", "items"),
    [
        (Span(2, 8), None, (1, 2)),
        (Span(3, 8), "list", (1, 2)),
        (Span(8, 10), None, (2, 2)),
        (Span(7, 9), "list", (2, 2)),
    ],
)
def test_an_element_is_more_than_half_of_a_span(
    span: Span, element: str | None, items: tuple[int, int]
) -> None:
    listed = Block(kind="list", start=5, end=9, parts=(Span(5, 7), Span(7, 9)))
    found = Structure(Document(text="0123456789", blocks=(listed,))).describe(span)
    assert found.get("element") == element
    assert found["item_range"] == items


def test_a_last_line_of_one_character_counts() -> None:
    code = Structure(Document(text="f {\n x\n}\n", kind="code"))
    assert code.describe(Span(0, 9))["lines"] == (1, 3)
    assert code.describe(Span(4, 7))["lines"] == (2, 2)


@pytest.mark.parametrize(
    ("text", "headings", "span", "sections"),
    [
        ("def f\n x\nrest\n", [(0, 9, 1, "f")], (0, 14), [(0, ("f",)), (9, ())]),
        ("def f\n x\nrest\n", [(0, 9, 1, "f")], (2, 14), [(2, ("f",)), (9, ())]),
        ("A\nx\nA\ny\n", [(0, 4, 1, "A"), (4, 8, 1, "A")], (0, 8), [(0, ("A",))]),
        ("f\n\n\ng\n", [(0, 2, 1, "f"), (4, 6, 1, "g")], (0, 6), [(0, ("f",)), (4, ("g",))]),
        ("# A\n# B\nx", [(0, 4, 1, "A"), (4, 9, 1, "B")], (0, 9), [(0, ("A",)), (4, ("B",))]),
        (
            "# A\n## B\nx\n# C\ny",
            [(0, 11, 1, "A"), (4, 11, 2, "B"), (11, 16, 1, "C")],
            (0, 16),
            [(4, ("A", "B")), (11, ("C",))],
        ),
        ("# A\n## B\nx", [(0, 10, 1, "A"), (4, 10, 2, "B")], (0, 4), [(0, ("A",))]),
        ("# A\n## B\nx", [(0, 10, 1, "A"), (4, 10, 2, "B")], (0, 10), [(4, ("A", "B"))]),
        (
            "intro\n# A\n## B\nx",
            [(6, 16, 1, "A"), (10, 16, 2, "B")],
            (0, 16),
            [(0, ()), (10, ("A", "B"))],
        ),
    ],
)
def test_sections_that_a_span_reaches_into(
    text: str,
    headings: list[tuple[int, int, int, str]],
    span: tuple[int, int],
    sections: list[tuple[int, tuple[str, ...]]],
) -> None:
    made = [
        Heading(start=start, end=end, level=level, title=title)
        for start, end, level, title in headings
    ]
    found = Structure(Document(text=text, headings=tuple(made))).sections(Span(*span))
    assert [(section.start, section.heading_path) for section in found] == sections


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
