"""Passages that others contain are listed, whatever their white space and wherever they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagotto import Document
from lagotto.base.duplicates import SHORTEST, Duplicate, duplicate_findings, find_duplicates
from lagotto.stores.base import Store
from lagotto.stores.memory import MemoryStore
from lagotto.stores.registry import create_store
from lagotto.testing.stores import entry

PART = "Truffles grow on the roots of oak and hazel trees."
WHOLE = f"Of mushrooms. {PART} A trained dog finds them."
CHINESE = (
    "松露生长在橡树和榛树的根部,经过训练的狗可以通过气味找到它们,而人们通常看不见它们在地下的样子。"
)


async def found_in(store: Store, *documents: Document) -> list[Duplicate]:
    """The duplicates of a store with documents, small ones of a passage each."""
    await store.open()
    try:
        for document in documents:
            await store.write([await entry(document)])
        return await find_duplicates(store)
    finally:
        await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_same_text_and_a_part_of_another(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else create_store(tmp_path / "kb.db")
    found = await found_in(
        store,
        Document(id="a", text=WHOLE),
        Document(id="b", text=WHOLE.replace(" ", " \n ")),
        Document(id="c", collection="other", text=PART),
        Document(id="d", text=PART.replace("oak", "elm")),
    )
    assert [(one.document_id, one.in_document_id, one.is_whole) for one in found] == [
        ("b", "a", True),
        ("c", "a", False),
    ]
    assert (found[1].start, found[1].end, found[1].in_end) == (0, len(PART), len(WHOLE))


async def test_scripts_without_blanks_and_short_texts() -> None:
    short = "Introduction to what follows"
    assert len(short) < SHORTEST
    found = await found_in(
        MemoryStore(),
        Document(id="a", text=f"说明。{CHINESE}完。"),
        Document(id="b", text=CHINESE),
        Document(id="c", text=short),
        Document(id="d", text=short),
    )
    assert [(one.document_id, one.in_document_id) for one in found] == [("b", "a")]


TEXTS = st.lists(
    st.integers(0, 5).map(lambda n: f"Sentence {n} {'abcdef'[n]} of the text is this one. "),
    min_size=1, max_size=4,
).map("".join)  # fmt: skip


@given(st.lists(TEXTS, min_size=1, max_size=6))
async def test_as_if_each_were_compared_with_each(texts: list[str]) -> None:
    store = MemoryStore()
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]
    found = await found_in(store, *documents)
    chunks = [chunk for each in documents for chunk in await store.chunks("default", each.id)]
    passages = {(one.document_id, one.start): " ".join(one.text.split()) for one in chunks}
    words = list(passages.values())
    expected = {
        name
        for number, (name, text) in enumerate(passages.items())
        if text in words[:number] or any(text in other != text for other in words)
    }
    assert {(one.document_id, one.start) for one in found} == expected
    for one in found:
        own = passages[one.document_id, one.start]
        other = passages[one.in_document_id, one.in_start]
        assert own in other
        assert one.is_whole == (own == other)


async def test_a_line_for_each_pair_of_documents() -> None:
    found = await found_in(
        MemoryStore(),
        Document(id="a", text=WHOLE),
        Document(id="my copy", collection="old files", text=WHOLE),
    )
    (finding,) = duplicate_findings(found)
    assert finding.level == "note"
    assert finding.what == f"1 passage of old files/my copy also in default/a: 0-{len(WHOLE)}"
    assert "`lagotto remove 'my copy' --collection 'old files'`" in finding.advice
    assert duplicate_findings([])[0].level == "ok"
