from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER, ChunkerRegistry
from lagotto.chunkers.recursive import recursive
from lagotto.errors import ConfigError, UnknownNameError
from tests.chunkers.words import Words


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("recursive", "recursive:256/32"),
        ("recursive:128", "recursive:128/32"),
        ("recursive:64", "recursive:64/16"),
        ("recursive:128/0", "recursive:128/0"),
        ("page", "page:512/0"),
        ("parent-child:800/200/20", "parent-child:800/200/20"),
        (DEFAULT_CHUNKER, DEFAULT_CHUNKER),
    ],
)
def test_ids_are_completed(given: str, full: str) -> None:
    assert CHUNKERS.create(given, tokenizer=Words()).id == full


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("recursive:large", "should look like recursive:256/32"),
        ("recursive:256/32/1", "too many numbers"),
        ("recursive:4", "at least 8 tokens"),
        ("recursive:100/51", "between 0 and half the chunk size"),
        ("recursive:100/-1", "between 0 and half the chunk size"),
        ("parent-child:100/200", "parents must be larger"),
    ],
)
def test_impossible_sizes_are_refused(given: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        CHUNKERS.create(given, tokenizer=Words())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"recursiv.*there are: code, heading"):
        CHUNKERS.create("recursiv:256", tokenizer=Words())


def test_chunkers_can_be_registered() -> None:
    registry = ChunkerRegistry("chunker", group="lagotto.chunkers", builtin={})
    registry.register("mine", recursive)
    assert registry.names() == ["mine"]
    assert registry.create("mine:64/0", tokenizer=Words()).id == "recursive:64/0"


def test_other_packages_add_theirs_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint("theirs", "lagotto.chunkers.sentence:sentence", "lagotto.chunkers")

    def installed(*, group: str, name: str = "theirs") -> EntryPoints:
        return EntryPoints([theirs]).select(group=group, name=name)

    monkeypatch.setattr("lagotto.registry.entry_points", installed)
    assert "theirs" in CHUNKERS.names()
    assert CHUNKERS.create("theirs:64/0", tokenizer=Words()).id == "sentence:64/0"
