from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from lagotto.chunkers import CHUNKERS, DEFAULT_CHUNKER, ChunkerRegistry
from lagotto.chunkers.strategies import recursive
from lagotto.errors import ConfigError, UnknownNameError
from tests.chunkers.words import Words


@pytest.mark.parametrize(
    ("given", "size", "overlap", "full"),
    [
        ("prose", None, None, "prose:256/32"),
        ("section", None, None, "section:256/32"),
        ("recursive", None, None, "recursive:256/32"),
        ("recursive:128", None, None, "recursive:128/32"),
        ("recursive:64", None, None, "recursive:64/16"),
        ("recursive:128/0", None, None, "recursive:128/0"),
        ("recursive:100/50", None, None, "recursive:100/50"),
        ("recursive:8", None, None, "recursive:8/2"),
        ("page", None, None, "page:512/0"),
        ("sentence", None, None, "sentence:256/32"),
        ("heading", None, None, "heading:256/32"),
        ("code", None, None, "code:256/0"),
        ("parent-child", None, None, "parent-child:1024/256/32"),
        ("parent-child:800/200/20", None, None, "parent-child:800/200/20"),
        (DEFAULT_CHUNKER, None, None, DEFAULT_CHUNKER),
        ("recursive", 128, None, "recursive:128/32"),
        ("recursive:256/0", 128, None, "recursive:128/0"),
        ("recursive:256/32", 64, None, "recursive:64/16"),
        ("recursive:256/32", None, 8, "recursive:256/8"),
        ("sentence:64/8", 512, 100, "sentence:512/100"),
        ("parent-child", 64, None, "parent-child:1024/64/16"),
    ],
)
def test_ids_are_completed_and_sizes_can_be_set(
    given: str, size: int | None, overlap: int | None, full: str
) -> None:
    assert CHUNKERS.create(given, tokenizer=Words(), size=size, overlap=overlap).id == full


@pytest.mark.parametrize(
    ("given", "size", "overlap", "complaint"),
    [
        ("recursive:large", None, None, "write recursive:256/32"),
        ("recursive:256/32/1", None, None, "too many numbers"),
        ("recursive:7", None, None, "at least 8 tokens"),
        ("recursive:100/51", None, None, "between 0 and half the chunk size"),
        ("recursive:100/-1", None, None, "between 0 and half the chunk size"),
        ("parent-child:100/200", None, None, "parents must be larger"),
        ("document:256", None, None, "takes no parameters"),
        ("recursive", 64, 40, "between 0 and half"),
        ("recursive", 4, None, "at least 8 tokens"),
        ("parent-child", 2048, None, "parents must be larger"),
        ("document", 64, None, "the chunker document has no size and overlap"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    given: str, size: int | None, overlap: int | None, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        CHUNKERS.create(given, tokenizer=Words(), size=size, overlap=overlap)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"recursiv.*available: auto, code, document"):
        CHUNKERS.create("recursiv:256", tokenizer=Words())


def test_chunkers_can_be_registered() -> None:
    registry = ChunkerRegistry("chunker", group="lagotto.chunkers", builtin={})
    registry.register("mine", recursive)
    assert registry.names() == ["mine"]
    assert registry.create("mine:64/0", tokenizer=Words()).id == "recursive:64/0"


def test_other_packages_add_theirs_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = EntryPoint("theirs", "lagotto.chunkers.strategies:sentence", "lagotto.chunkers")

    def installed(*, group: str, name: str = "theirs") -> EntryPoints:
        return EntryPoints([theirs]).select(group=group, name=name)

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    assert "theirs" in CHUNKERS.names()
    assert CHUNKERS.create("theirs:64/0", tokenizer=Words()).id == "sentence:64/0"
