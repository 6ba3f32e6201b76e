from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.readers.samples import RST, only


def sections(text: str) -> list[tuple[str, int]]:
    return [(item.title, item.level) for item in only(text, "a.rst").headings]


def parts(text: str, kind: str) -> list[list[str]]:
    document = only(text, "a.rst")
    return [
        [document.text[start:end] for start, end in block.parts]
        or [document.text[block.start : block.end]]
        for block in document.blocks
        if block.kind == kind
    ]


def test_levels_follow_the_order_of_adornments() -> None:
    assert sections(RST) == [("Cats", 1), ("Facts", 2), ("Food and sleep", 2), ("At night", 3)]


def test_the_text_stays_as_written_and_fields_are_metadata() -> None:
    document = only(RST, "cats.rst")
    assert document.text == RST
    by_title = {item.title: document.text[item.start : item.end] for item in document.headings}
    assert by_title["Facts"].startswith("Facts\n-----\n")
    assert by_title["Facts"].rstrip().endswith("- sleep,\n  deeply")
    assert by_title["Cats"].startswith("====\nCats\n====\n")
    assert document.title == "Cats"
    assert document.metadata == {"author": "Ann"}
    assert document.created_at == datetime(2024, 5, 6, tzinfo=UTC)


def test_blocks() -> None:
    assert parts(RST, "table") == [
        ["cat   hours", "Tom   16", "Kit   14"],
        ["| a | b |", "| c | d |"],
    ]
    assert parts(RST, "list") == [["- eat", "- sleep,\n  deeply"]]
    assert parts(RST, "code") == [["   nap()\n\n   nap()"], ["   purr()"]]


MARKUP = "The ``x`` of :class:`Cat` and `this <http://a.b>`_\n" + "=" * 60 + "\n"


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("a paragraph\nof two lines\n----\n", []),
        ("text\n\n----\n\ntext", []),
        ("::\n\n    Code\n    ====\n", []),
        ("=====\nalone\n", []),
        (MARKUP, ["The x of Cat and this"]),
        ("A long title\n====\n", ["A long title"]),
        ("A long title\n==\n", []),
    ],
)
def test_what_is_a_section(text: str, titles: list[str]) -> None:
    assert sections(text) == [(title, 1) for title in titles]
