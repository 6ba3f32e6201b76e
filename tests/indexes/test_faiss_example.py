"""The indexes in docs/indexes.md, as a package of its own, keep the contracts."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from lagotto import Document, KnowledgeBase
from lagotto.indexes.registry import VECTOR_INDEXES
from lagotto.testing.hash_embedder import HashEmbedder

pytest.importorskip("faiss", reason="pip install faiss-cpu")

PAGE = (Path(__file__).parents[2] / "docs" / "indexes.md").read_text(encoding="utf-8")
(CODE, CONTRACT, DRIVER) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
(ENTRY_POINT,) = re.findall(r'^faiss = "(.*)"$', PAGE, re.MULTILINE)

example = ModuleType("lagotto_faiss")
exec(compile(CODE + CONTRACT + DRIVER, "docs/indexes.md", "exec"), example.__dict__)

TestFaiss = example.TestFaiss
TestFaissService = example.TestFaissService


def test_a_base_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, it is found by its entry point, and searched like any other."""
    (tmp_path / "lagotto_faiss.py").write_text(CODE, encoding="utf-8")
    installed = tmp_path / "lagotto_faiss-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lagotto-faiss\nVersion: 1\n")
    entry_points = f"[lagotto.vector_indexes]\nfaiss = {ENTRY_POINT}\n"
    (installed / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    assert "faiss" in VECTOR_INDEXES.names()
    documents = [Document(id=str(number), text=f"text number {number}") for number in range(30)]
    found = []
    for index in ("embedded", "faiss"):
        with KnowledgeBase(
            tmp_path / f"{index}.db", embedder=HashEmbedder(), vector_index=index
        ) as kb:
            kb.add(*documents)
            kb.remove("7")
            hits = kb.retrieve("number 7", mode="semantic", top_k=5)
            found.append([(hit.document_id, hit.score) for hit in hits])
    assert found[0] == found[1]
