from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature

from lagotto.cli.options import flatten_groups


@dataclass(frozen=True)
class Colours:
    main: str
    others: list[str] = field(default_factory=list)
    bright: bool = False


def test_a_group_stands_for_its_fields() -> None:
    calls: list[tuple[str, Colours, int]] = []

    def paint(what: str, colours: Colours, coats: int = 1) -> None:
        """Paint it."""
        calls.append((what, colours, coats))

    flat = flatten_groups(paint)
    assert str(signature(flat)) == (
        "(*, what: str, main: str, others: list[str] = [], bright: bool = False, coats: int = 1)"
    )
    assert flat.__doc__ == "Paint it."
    flat(what="fence", main="red", others=["blue"], bright=True, coats=2)
    assert calls == [("fence", Colours("red", ["blue"], bright=True), 2)]
