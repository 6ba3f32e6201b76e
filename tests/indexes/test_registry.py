"""Indexes by their names."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lagotto._internal.trust import is_trusted
from lagotto.errors import IndexUnavailableError
from lagotto.indexes.registry import IndexSite, UntrustedIndex, chosen
from lagotto.testing.indexes import MemoryChangeLog


def test_an_index_that_nobody_named_says_how_to_trust_it() -> None:
    index = UntrustedIndex(IndexSite("b", timeout=1, address="qdrant://far"), "text")
    assert (index.kind, index.remote, index.dimension) == ("qdrant", True, 0)
    finding = index.check(MemoryChangeLog())
    assert (finding.level, finding.what) == ("problem", "the text index qdrant://far is not used")
    for ask in (index.latest, index.catch_up):
        with pytest.raises(IndexUnavailableError, match="is not used; ") as caught:
            ask(MemoryChangeLog())
        assert str(caught.value) == f"{finding.what}; {finding.advice}"


def test_names_of_indexes_stay_as_they_are() -> None:
    """Another name would be another index, and the former one would stay behind."""
    names = [
        IndexSite("base", timeout=1, generation=generation).name("text", "rules", digits=digits)
        for generation, digits in ((0, 16), (0, 8), (1, 16))
    ]
    assert names[0].startswith(names[1])
    assert len(names[1]) == len("text-12345678")
    assert names[0] == IndexSite("base", timeout=9).name("text", "rules")
    assert len({name[: len(names[1])] for name in names}) == 2
    assert IndexSite("other", timeout=1).name("text", "rules") != names[0]


def test_an_address_that_the_user_names_is_trusted() -> None:
    """And one that only a base has is not."""
    ours, theirs = (f"qdrant://{uuid4()}:6333" for _ in range(2))
    options = {"usual": "tantivy", "role": "text", "location": "kb.db"}
    assert chosen(None, ours, **options) == ours
    assert chosen(theirs, None, **options) == theirs
    assert chosen(None, None, **options) == "tantivy"
    assert (is_trusted(ours), is_trusted(theirs)) == (True, False)
